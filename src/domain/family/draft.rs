//! A partially read manifest. The missing parts are reported as mistakes.

use std::collections::HashSet;

use indexmap::IndexMap;
use toml::Spanned;
use toml::de::DeTable;

use super::entries::{self, LaunchEntry, MapEntry, Named};
use super::fields::{Fields, Notes};
use super::plan_rules::Entries;
use super::rules::WorkspaceRule;
use super::{Constraint, Family, Opening, Param, content_hash_of};
use crate::domain::compute::Compute;
use crate::domain::expr::{ExpectedType, Expr};
use crate::domain::op::{Dtype, OptionalDim};

/// A manifest, each part of which may be missing.
pub(super) struct Draft {
    pub(super) name: Option<String>,
    about: Option<String>,
    pub(super) op: Option<String>,
    pub(super) dtypes: Option<Vec<Dtype>>,
    pub(super) compute: Compute,
    requires_sm: Option<u32>,
    pub(super) constants: Option<Vec<String>>,
    headers: Vec<String>,
    pub(super) params: IndexMap<String, Option<Param>>,
    pub(super) derived: IndexMap<String, Option<Expr>>,
    pub(super) constraints: Vec<Option<Constraint>>,
    pub(super) openings: Vec<Option<Opening>>,
    pub(super) workspaces: Vec<Named<WorkspaceRule>>,
    pub(super) tensor_maps: Vec<MapEntry>,
    pub(super) launches: Vec<LaunchEntry>,
    /// The expressions of everything but derived values.
    pub(super) exprs: Vec<Expr>,
    /// Whether the name of every parameter, derived value, workspace and tensor map could be read.
    pub(super) has_all_names: bool,
}

impl Draft {
    /// Reads a manifest, and notes what is wrong with its keys and values.
    pub(super) fn read<'t>(document: Spanned<DeTable<'t>>, notes: &Notes<'t>) -> Self {
        let start = document.span().start;
        Self::of(Fields::of(notes, start, document.into_inner()))
    }

    fn of(mut fields: Fields<'_, '_>) -> Self {
        let notes = fields.notes();
        let name = fields.required("name");
        let about = fields.required("about");
        let op = fields.required("op");
        let dtypes = fields.required("dtypes");
        let compute = fields.optional("compute").unwrap_or_default();
        let requires_sm = fields.required("requires_sm");
        let constants = fields.required("constants");
        let headers = fields.optional("headers").unwrap_or_default();
        let params = fields.named_tables("params").into_iter();
        let params = params.map(|(name, table)| (name.clone(), table.and_then(|table| entries::param(&name, table))));
        let params = params.collect();
        let derived = fields.named_texts("derived").into_iter();
        let derived = derived.map(|(name, text)| (name, text.and_then(|text| notes.expr(&text, ExpectedType::Int))));
        let derived = derived.collect();
        let constraints = fields.tables("constraint").into_iter().map(|table| table.and_then(entries::constraint));
        let constraints = constraints.collect();
        let openings = fields.tables("opening").into_iter().map(|table| table.and_then(entries::opening)).collect();
        let workspaces = fields.tables("workspace").into_iter();
        let workspaces: Vec<_> = workspaces.map(|table| table.map_or_else(Named::none, entries::workspace)).collect();
        let no_map = || MapEntry { entry: Named::none(), tensor: None };
        let tensor_maps = fields.tables("tensor_map").into_iter();
        let tensor_maps: Vec<_> = tensor_maps.map(|table| table.map_or_else(no_map, entries::tensor_map)).collect();
        let no_launch = || LaunchEntry { entry: Named::none(), args: Vec::new() };
        let launches = fields.tables("launch").into_iter();
        let launches = launches.map(|table| table.map_or_else(no_launch, entries::launch)).collect();
        let lost_tables = fields.finish();
        let unnamed = workspaces.iter().any(|entry| entry.name.is_none())
            || tensor_maps.iter().any(|map| map.entry.name.is_none());
        Self {
            name,
            about,
            op,
            dtypes,
            compute,
            requires_sm,
            constants,
            headers,
            params,
            derived,
            constraints,
            openings,
            workspaces,
            tensor_maps,
            launches,
            exprs: notes.take_exprs(),
            has_all_names: !lost_tables && !unnamed,
        }
    }

    /// Returns the names of the workspaces and tensor maps.
    pub(super) fn buffers(&self) -> impl Iterator<Item = &String> {
        let maps = self.tensor_maps.iter().filter_map(|map| map.entry.name.as_ref());
        self.workspaces.iter().filter_map(|entry| entry.name.as_ref()).chain(maps)
    }

    /// Returns a constraint for each optional dimension that the manifest does not name: it takes cases without it only.
    fn without_optional(&self, optional: &[OptionalDim]) -> Vec<Constraint> {
        let constants = self.constants.iter().flatten().cloned();
        let exprs = self.derived.values().flatten().chain(&self.exprs).flat_map(Expr::names);
        let args = self.launches.iter().flat_map(|launch| launch.args.iter().cloned());
        let named: HashSet<String> = constants.chain(exprs).chain(args).collect();
        let unnamed = optional.iter().filter(|one| !named.contains(one.dim.name));
        let constraint = |OptionalDim { dim, default }: &OptionalDim| {
            let expr = Expr::parse(&format!("{} == {}", dim.name, default.text())).ok()?;
            Some(Constraint { expr, why: format!("The family does not name {}, {}.", dim.name, dim.about) })
        };
        unnamed.filter_map(constraint).collect()
    }

    /// Makes the family of an op with these optional dimensions. None if anything is missing.
    pub(super) fn into_family(self, manifest: &str, template: String, optional: &[OptionalDim]) -> Option<Family> {
        let without_optional = self.without_optional(optional);
        let constraints = self.constraints.into_iter().chain(without_optional.into_iter().map(Some));
        let named = |(name, value): (String, Option<Param>)| Some((name, value?));
        Some(Family {
            name: self.name?,
            about: self.about?,
            op: self.op?,
            dtypes: self.dtypes?,
            compute: self.compute,
            requires_sm: self.requires_sm?,
            constants: self.constants?,
            headers: self.headers,
            params: self.params.into_iter().map(named).collect::<Option<_>>()?,
            constraints: constraints.collect::<Option<_>>()?,
            openings: self.openings.into_iter().collect::<Option<_>>()?,
            listed: None,
            content_hash: content_hash_of(manifest, &template),
            template,
            manifest: manifest.to_owned(),
            derived: self.derived.into_iter().map(|(name, expr)| Some((name, expr?))).collect::<Option<_>>()?,
            entries: Entries {
                workspaces: self.workspaces.into_iter().map(|entry| entry.rule).collect::<Option<_>>()?,
                tensor_maps: self.tensor_maps.into_iter().map(|map| map.entry.rule).collect::<Option<_>>()?,
                launches: self.launches.into_iter().map(|launch| launch.entry.rule).collect::<Option<_>>()?,
            },
            implied: optional.iter().map(|one| (one.dim.name, one.default)).collect(),
        })
    }
}
