//! What a call of an exported module takes and returns, from the description of the op.

use serde::Serialize;
use tera::Context;

use super::Winner;
use crate::domain::op::{DimDefault, DimSpec, Dims, Dtype, Op, OptionalDim, TensorRole, TensorSpec, completed};
use crate::domain::workload::{BaselineKey, Workload};

/// The dimensions and tensors of a call.
pub(super) struct Interface {
    /// The dimensions that every case gives, and the optional ones that some winner has.
    pub dims: Vec<Dim>,
    optional: Vec<&'static OptionalDim>,
    /// The dimensions that are choices, with the values for which the tensors are described.
    choices: Vec<(&'static str, i64)>,
    pub tensors: Vec<Tensor>,
    op: &'static dyn Op,
    dtype: Dtype,
    /// An expression of PyTorch over the names of inputs, dimensions and scalars.
    pub reference: Option<String>,
    pub scalars: Vec<(&'static str, f64)>,
}

/// A dimension with no larger value is a choice, such as that of a scale for all rows or for each of them, and not a size.
const MAX_CHOICE: i64 = 8;

/// A dimension.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Dim {
    pub name: &'static str,
    pub about: &'static str,
    /// The input and the axis that have it as their extent. None if no input tells it.
    pub of: Option<(String, usize)>,
    /// Its value, if it is the same for every winner.
    pub default: Option<i64>,
    /// Its value for the first winner, for an example.
    pub example: i64,
    /// The parameter of a Python function, with its default.
    pub parameter: String,
}

/// A tensor.
pub(super) struct Tensor {
    pub name: String,
    pub role: TensorRole,
    pub dtype: Dtype,
    /// Its extents as expressions over dimensions, in the syntax of Python. None for one that is neither a sum of multiples nor
    /// a quotient.
    pub extents: Vec<Option<String>>,
}

impl Interface {
    /// Describes a workload's op.
    pub fn of(workload: &Workload, winners: &[Winner]) -> Self {
        let op = workload.op;
        let optional = optional_dims(op, winners);
        let specs = || op.dims().iter().chain(optional.iter().map(|one| &one.dim));
        let names: Vec<&'static str> = specs().map(|dim| dim.name).collect();
        let first = winners.first().map(|winner| complete(&winner.dims, &optional));
        let of_first = |spec: &DimSpec| Some((spec.name, *first.as_ref()?.get(spec.name)?));
        let choices: Vec<_> = specs().filter(|spec| spec.range.1 <= MAX_CHOICE).filter_map(of_first).collect();
        let tensors: Vec<Tensor> = tensors(&names, |dims| op.tensors(&chosen(dims, &choices), workload.dtype));
        let place = |dim: &str| {
            let inputs = tensors.iter().filter(|tensor| tensor.role.is_read());
            let axis = |tensor: &Tensor| tensor.extents.iter().position(|extent| extent.as_deref() == Some(dim));
            inputs.into_iter().find_map(|tensor| Some((tensor.name.clone(), axis(tensor)?)))
        };
        let dim = |spec: &DimSpec| {
            let mut values = winners.iter().map(|winner| complete(&winner.dims, &optional)[spec.name]);
            let first = values.next();
            let default = first.filter(|first| values.all(|value| value == *first));
            let parameter = match default {
                Some(value) => format!("{}={value}", spec.name),
                None => spec.name.to_owned(),
            };
            Dim {
                name: spec.name,
                about: spec.about,
                of: place(spec.name),
                default,
                example: first.unwrap_or(1),
                parameter,
            }
        };
        let dims = specs().map(dim).collect();
        let baseline = workload.baseline.as_ref().and_then(|baseline| match baseline {
            BaselineKey::Torch { torch, .. } => Some(torch.clone()),
            BaselineKey::Module(_) | BaselineKey::File(_) | BaselineKey::Command(_) => None,
        });
        let reference = op.torch(&names[op.dims().len()..]);
        // Only an op whose scalars depend on dimensions has an expression of its own.
        let scalars = match (&reference, winners.first()) {
            (None, Some(winner)) => op.scalars(&winner.dims),
            _ => Vec::new(),
        };
        let (reference, dtype) = (reference.or(baseline), workload.dtype);
        Self { dims, optional, choices, tensors, op, dtype, reference, scalars }
    }

    /// Returns the dimensions of a shape with the defaults of the optional ones. None if it has other tensors than a call.
    pub fn complete(&self, dims: &Dims, tensors: &[TensorSpec]) -> Option<Dims> {
        let is_one = |tensor: &TensorSpec| self.tensors.iter().any(|one| one.name == tensor.name);
        let has_all = tensors.len() == self.tensors.len() && tensors.iter().all(is_one);
        let completed = complete(dims, &self.optional);
        // With other choices, tensors may have the same names, but other shapes.
        let described = self.op.tensors(&chosen(&completed, &self.choices), self.dtype);
        let is_same = described.iter().zip(tensors).all(|(one, other)| one.shape == other.shape);
        (has_all && is_same).then_some(completed)
    }

    /// Returns what a dimension is where a shape leaves it out. None if every shape gives it.
    pub fn default_of(&self, dim: &str) -> Option<DimDefault> {
        self.optional.iter().find(|one| one.dim.name == dim).map(|one| one.default)
    }

    /// Returns the names of the tensors that a call passes for their values, among them those that it updates in place.
    pub fn inputs(&self) -> Vec<&str> {
        self.names(TensorRole::is_read)
    }

    /// Returns the names of the tensors that a call updates in place.
    pub fn in_place(&self) -> Vec<&str> {
        self.names(|role| role == TensorRole::InPlace)
    }

    /// Returns the names of the tensors that a call makes anew.
    pub fn outputs(&self) -> Vec<&str> {
        self.names(|role| role == TensorRole::Output)
    }

    fn names(&self, is_meant: impl Fn(TensorRole) -> bool) -> Vec<&str> {
        self.with_role(is_meant).map(|tensor| tensor.name.as_str()).collect()
    }

    /// Returns the tensors with such a role.
    pub fn with_role(&self, is_meant: impl Fn(TensorRole) -> bool) -> impl Iterator<Item = &Tensor> {
        self.tensors.iter().filter(move |tensor| is_meant(tensor.role))
    }

    /// Returns the dimensions that no input tells: the parameters of a call. Those with a default come last.
    pub fn given(&self) -> Vec<&Dim> {
        let mut given: Vec<&Dim> = self.dims.iter().filter(|dim| dim.of.is_none()).collect();
        given.sort_by_key(|dim| dim.default.is_some());
        given
    }

    /// Adds what templates use.
    pub fn describe(&self, context: &mut Context) {
        let given = self.given();
        let dims: Vec<&str> = self.dims.iter().map(|dim| dim.name).collect();
        context.insert("inputs", &self.inputs());
        context.insert("in_place", &self.in_place());
        context.insert("outputs", &self.outputs());
        context.insert("given", &given);
        context.insert("dims", &dims);
        context.insert("has_reference", &self.reference.is_some());
        context.insert("reference", self.reference.as_deref().unwrap_or_default());
        context.insert("scalars", &self.scalars);
    }
}

impl Tensor {
    /// Returns the shape for readers, such as `[B, H, Sq, D]`.
    pub fn shape(&self) -> String {
        let extents: Vec<&str> = self.extents.iter().map(|extent| extent.as_deref().unwrap_or("…")).collect();
        format!("[{}]", extents.join(", "))
    }
}

/// Returns the optional dimensions that some winner has, on its case or on a shape that it is proven for.
fn optional_dims(op: &dyn Op, winners: &[Winner]) -> Vec<&'static OptionalDim> {
    let all = || winners.iter().flat_map(|one| one.proven.iter().map(|(dims, _)| dims).chain([&one.dims]));
    op.optional_dims().iter().filter(|one| all().any(|dims| dims.contains_key(one.dim.name))).collect()
}

/// Adds the defaults of optional dimensions.
fn complete(dims: &Dims, optional: &[&OptionalDim]) -> Dims {
    completed(dims, optional.iter().map(|one| (one.dim.name, one.default)))
}

/// Replaces the dimensions that are choices.
fn chosen(dims: &Dims, choices: &[(&'static str, i64)]) -> Dims {
    let mut chosen = dims.clone();
    chosen.extend(choices.iter().map(|(name, value)| ((*name).to_owned(), *value)));
    chosen
}

/// Describes tensors by their shapes for some values of the dimensions.
fn tensors(names: &[&'static str], at: impl Fn(&Dims) -> Vec<TensorSpec>) -> Vec<Tensor> {
    // Each dimension gets a value of its own. An extent that is affine near it is compared at a distant point.
    let near = |place: usize| 64 + 7 * place as i64;
    let dims = |value: &dyn Fn(usize) -> i64| -> Dims {
        names.iter().enumerate().map(|(place, name)| ((*name).to_owned(), value(place))).collect()
    };
    let base = at(&dims(&near));
    let moved: Vec<Vec<TensorSpec>> =
        (0..names.len()).map(|moved| at(&dims(&|place| near(place) + i64::from(place == moved)))).collect();
    // An extent that is no sum is one at some of these: a quotient, say, is 0 near the first point.
    let distant = |place: usize| 211 + 10 * place as i64;
    let stretched = |of: usize| move |place: usize| distant(place) * if place == of { 37 } else { 1 };
    let points: Vec<(Dims, Vec<TensorSpec>)> = (0..=names.len())
        .map(|of| {
            let dims = dims(&stretched(of));
            let specs = at(&dims);
            (dims, specs)
        })
        .collect();
    let describe = |(index, tensor): (usize, &TensorSpec)| {
        let extent = |axis: usize| {
            let value = |specs: &[TensorSpec]| specs[index].shape[axis] as i64;
            let is_everywhere = |of: &dyn Fn(&Dims) -> i64| points.iter().all(|(dims, specs)| of(dims) == value(specs));
            let factors: Vec<i64> = moved.iter().map(|specs| value(specs) - value(&base)).collect();
            let sum = |values: &dyn Fn(usize) -> i64| -> i64 {
                factors.iter().enumerate().map(|(place, factor)| factor * values(place)).sum()
            };
            let constant = value(&base) - sum(&near);
            if is_everywhere(&|dims| constant + sum(&|place| dims[names[place]])) {
                return Some(affine(names, &factors, constant));
            }
            let pairs = names.iter().flat_map(|a| names.iter().map(move |b| (a, b)));
            let quotient = pairs.into_iter().find(|(a, b)| is_everywhere(&|dims| dims[**a] / dims[**b]));
            quotient.map(|(a, b)| format!("{a} // {b}"))
        };
        let extents = (0..tensor.shape.len()).map(extent).collect();
        Tensor { name: tensor.name.clone(), role: tensor.role, dtype: tensor.dtype, extents }
    };
    base.iter().enumerate().map(describe).collect()
}

/// Writes a sum of multiples, such as `H + F - 1`.
fn affine(names: &[&str], factors: &[i64], constant: i64) -> String {
    let mut text = String::new();
    let terms = names.iter().zip(factors).filter(|(_, factor)| **factor != 0);
    let terms = terms.map(|(name, factor)| match factor.abs() {
        1 => (*factor, (*name).to_owned()),
        times => (*factor, format!("{times} * {name}")),
    });
    let number =
        (constant != 0 || factors.iter().all(|factor| *factor == 0)).then(|| (constant, constant.abs().to_string()));
    for (sign, term) in terms.chain(number) {
        text += match (text.is_empty(), sign < 0) {
            (true, false) => "",
            (true, true) => "-",
            (false, false) => " + ",
            (false, true) => " - ",
        };
        text += &term;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::table::Table;
    use super::*;
    use crate::domain::op::Values;
    use crate::domain::sidecar::tests::sidecar;
    use crate::ops;

    #[test]
    fn extents_are_read_from_shapes() {
        let shapes = |dims: &Dims| {
            let at = |name: &str| dims[name] as usize;
            let tensor = |name: &str, role, shape| TensorSpec {
                name: name.to_owned(),
                dtype: Dtype::F32,
                shape,
                role,
                values: Values::Normal,
            };
            vec![
                tensor("image", TensorRole::Input, vec![at("H") + at("F") - 1, 2 * at("W")]),
                tensor("filter", TensorRole::Input, vec![at("F"), 1]),
                tensor("out", TensorRole::Output, vec![at("H") / 8, at("W")]),
                tensor("pages", TensorRole::Output, vec![at("H") / at("F"), at("W")]),
            ]
        };
        let shown: Vec<String> = tensors(&["H", "W", "F"], shapes).iter().map(Tensor::shape).collect();
        assert_eq!(shown, ["[H + F - 1, 2 * W]", "[F, 1]", "[…, W]", "[H // F, W]"]);
    }

    fn winner(dims: &[(&str, i64)]) -> Winner {
        let dims: Dims = dims.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
        let device = "nvidia-h200-132sm-140gib".parse().unwrap();
        Winner { device, sidecar: sidecar(), source: String::new(), dims, proven: Vec::new() }
    }

    /// A scale for each row of w was described as one number, so that a call could not say its shape.
    #[test]
    fn a_choice_keeps_the_value_that_the_winners_have() {
        let text = r#"
            name = "w"
            about = "A test workload."
            op = "linear"
            dtype = "e4m3"
            initial_kernel = "linear-scalar"
            tolerance = { relative_l2 = 1e-3, worst_row = 4e-3 }
            case = [{ name = "c", M = 1, N = 1, K = 1 }]
        "#;
        let workload = Workload::parse(text, ops::find).unwrap();
        let with = |kind: i64| winner(&[("M", 8), ("N", 16), ("K", 32), ("WSCALE", kind), ("GATED", 1)]);
        let interface = Interface::of(&workload, &[with(2)]);
        let shown: Vec<String> = interface.tensors.iter().map(Tensor::shape).collect();
        assert_eq!(shown, ["[M, K]", "[2, N, K]", "[2, N]", "[M, N]"]);
        let Err(refused) = Table::of(&workload, &interface, &[with(2), with(1)]) else { panic!("shapes differ") };
        insta::assert_snapshot!(refused, @"b1 and other winners have different tensors: export each by itself, as w/b1");
    }

    /// A case that leaves a dimension out has its default, which a call must be able to say.
    #[test]
    fn optional_dimensions_of_some_winners_are_those_of_a_call() {
        let plain = [("B", 1), ("H", 4), ("Sq", 8), ("Sk", 8), ("D", 64), ("CAUSAL", 1)];
        let with = |more: &[(&'static str, i64)]| winner(&[&plain[..], more].concat());
        let text = r#"
            name = "w"
            about = "A test workload."
            op = "attention"
            dtype = "f16"
            initial_kernel = "attention-scalar"
            tolerance = { relative_l2 = 1e-3, worst_row = 4e-3 }
            case = [{ name = "c", B = 1, H = 1, Sq = 4, Sk = 4, D = 64, CAUSAL = 1 }]
        "#;
        let workload = Workload::parse(text, ops::find).unwrap();

        let winners = [with(&[]), with(&[("Hkv", 2), ("WINDOW", 4)])];
        let interface = Interface::of(&workload, &winners);
        let dim = |name: &str| interface.dims.iter().find(|dim| dim.name == name).unwrap();
        assert_eq!(dim("Hkv").of, Some(("k".to_owned(), 1)));
        assert_eq!((dim("WINDOW").of.clone(), &*dim("WINDOW").parameter), (None, "WINDOW"));
        let tensors = workload.op.tensors(&winners[0].dims, Dtype::F16);
        let completed = interface.complete(&winners[0].dims, &tensors).unwrap();
        assert_eq!((completed["Hkv"], completed["WINDOW"]), (4, 0));
        assert!(interface.reference.unwrap().contains("WINDOW > 0"));

        let with_sink = [with(&[]), with(&[("SINK", 1)])];
        let interface = Interface::of(&workload, &with_sink);
        assert_eq!(interface.inputs(), ["q", "k", "v", "sink"]);
        let Err(refused) = Table::of(&workload, &interface, &with_sink) else { panic!("they have other tensors") };
        insta::assert_snapshot!(refused, @"b1 and other winners have different tensors: export each by itself, as w/b1");
    }
}
