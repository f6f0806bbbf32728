//! `optloop compile`: compiles families for an architecture, which needs no GPU.

use std::collections::BTreeMap;
use std::io::Write;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rayon::prelude::*;

use crate::catalog::Project;
use crate::config::Config;
use crate::domain::code::artifact::Artifact;
use crate::domain::device::DeviceInfo;
use crate::domain::family::Family;
use crate::domain::ids::CaseName;
use crate::domain::space::Space;
use crate::domain::space::fit::Fit;
use crate::domain::text::counted::counted;
use crate::domain::variant::{Variant, show_params};
use crate::domain::workload::Workload;
use crate::error::{Error, error, usage, usage_sentence};
use crate::launch::own_executable;
use crate::notices::say;
use crate::runner::activity;
use crate::runner::compile::Compiler;
use crate::runner::renderer::Renderer;
use crate::runner::toolchain::Toolchain;

/// Arguments of `optloop compile`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Workload that provides the dimensions and dtype [default: session.workload in config.toml, or the only workload of
    /// the op of a family that is named]
    #[arg(short = 'w', long)]
    workload: Option<String>,

    /// Compile only for this case of the workload; can be repeated [default: every case]
    #[arg(short = 'c', long = "case", value_name = "CASE")]
    cases: Vec<CaseName>,

    /// Compile only this family; can be repeated [default: every family]
    #[arg(short = 'f', long = "family", value_name = "FAMILY")]
    families: Vec<String>,

    /// Architecture: sm_80, sm_86, sm_89, sm_90 or sm_90a
    #[arg(long, default_value = "sm_90a")]
    arch: String,

    /// Number of random valid configurations of each family to compile, in addition to its default configuration
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    random: u32,

    /// Random seed for these configurations
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Print one JSON object per variant
    #[arg(long)]
    json: bool,
}

/// A configuration to compile.
struct SelectedVariant {
    case: CaseName,
    variant: Variant,
    /// The kernels that its launch plan names, with their dynamic shared memory in bytes.
    launched: BTreeMap<String, u32>,
}

/// What to compile, and why the rest is left out.
#[derive(Default)]
struct Selected {
    variants: Vec<SelectedVariant>,
    /// A sentence for each family and reason.
    excluded: Vec<String>,
    /// A sentence for each family that cannot be used at all.
    unusable: Vec<String>,
}

/// A compiled configuration, with its result.
struct Row {
    selected: SelectedVariant,
    result: Result<Artifact, Error>,
}

/// Compiles in parallel and prints what each kernel uses. Fails if a variant does not compile.
pub fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let config = Config::load(project.root()).map_err(usage)?;
    let mut families = project.families().map_err(usage)?;
    let default = &config.session.workload;
    let workload = match (&args.workload, &args.families[..]) {
        (Some(name), _) => project.workload(name),
        (None, []) => project.workload(default),
        (None, [first, ..]) => families.family(first).and_then(|family| project.workload_of(family, default)),
    };
    let workload = workload.map_err(usage)?.select(&args.cases).map_err(usage_sentence)?;
    let named = families.searched(&args.families).map_err(usage)?;
    families.missed(workload.op.name(), &args.families).for_each(|broken| say(&broken.left_out()));
    families.sound.retain(|family| named.contains(&family.name));
    let device = DeviceInfo::of_arch(&args.arch).map_err(usage_sentence)?;
    let renderer = Renderer::new(own_executable()?);
    let selected = select(&workload, &families.sound, &device, &renderer, args);
    let Selected { variants, excluded, unusable } = selected;
    if let Some(problem) = unusable.first().filter(|_| variants.is_empty() || !args.families.is_empty()) {
        return Err(usage_sentence(problem));
    }
    unusable.iter().for_each(|problem| say(problem));
    if variants.is_empty() {
        return Err(usage_sentence(format!(
            "no family has a valid configuration for `{}` on {}: {}",
            workload.name,
            args.arch,
            excluded.join("; ")
        )));
    }
    // Of all families, many are made for other cases.
    if !args.families.is_empty() {
        excluded.iter().for_each(|why| say(why));
    }
    let compiler = Compiler::new(
        own_executable()?,
        Toolchain::find_or_fetch()?,
        &args.arch,
        &config.compile.options,
        config.compile_limits(),
    )?;
    let running = activity::begin(format!("compiling {}", counted(variants.len(), "variant")), None);
    let rows: Vec<Row> = variants
        .into_par_iter()
        .map(|selected| Row { result: compiler.compile(&selected.variant).map_err(Error::new), selected })
        .map(Row::with_every_kernel)
        .collect();
    drop(running);
    for row in &rows {
        if args.json { row.write_json(out)? } else { row.write_text(out)? }
    }
    match rows.iter().filter(|row| row.result.is_err()).count() {
        0 if unusable.is_empty() => Ok(()),
        0 => anyhow::bail!("{} of {} families cannot be used", unusable.len(), named.len()),
        failed => anyhow::bail!("{failed} of {} variants do not compile for {}", rows.len(), args.arch),
    }
}

/// Returns the default configuration of every family for every specialization, and random configurations.
fn select(workload: &Workload, families: &[Family], device: &DeviceInfo, renderer: &Renderer, args: &Args) -> Selected {
    let mut rng = SmallRng::seed_from_u64(args.seed);
    let mut selected = Selected::default();
    for family in families {
        if family.op != workload.op.name() {
            selected.excluded.push(format!("`{}` computes {}", family.name, family.op));
            continue;
        }
        let variants = Fit::of(family, workload, device).and_then(|fit| {
            selected.excluded.extend(fit.sentences(family));
            variants_of(family, &fit, workload, device, renderer, (args.random, &mut rng))
        });
        match variants {
            Ok(variants) => selected.add(variants),
            Err(problem) => selected.unusable.push(problem.into()),
        }
    }
    selected
}

/// Returns the configurations of a family to compile. The error says what is wrong with the family.
fn variants_of(
    family: &Family,
    fit: &Fit<'_>,
    workload: &Workload,
    device: &DeviceInfo,
    renderer: &Renderer,
    (random, rng): (u32, &mut SmallRng),
) -> Result<Vec<SelectedVariant>, Error> {
    let (mut specializations, mut variants) = (Vec::new(), Vec::new());
    for (case, start) in fit.taken() {
        // Some cases share a source. The first one with a valid configuration of the family represents them.
        let specialization = family.specialization(case);
        if specializations.contains(&specialization) {
            continue;
        }
        let space = Space { family, case, dtype: workload.dtype, device };
        let mut configurations = vec![start.clone()];
        for _ in 0..random {
            configurations.extend(space.random(rng)?);
        }
        for params in configurations {
            // A mistake in the launch plan is reported here, not only where there is a GPU.
            let plan = family.plan(&params, case, workload.op, workload.dtype, device).map_err(|error| {
                error!("family `{}` has no launch plan on case `{}`: {error}", family.name, case.name)
            })?;
            let variant = renderer.render(family, &specialization, workload.dtype, &params)?;
            let mut launched = BTreeMap::new();
            for launch in plan.launches {
                let most: &mut u32 = launched.entry(launch.kernel).or_default();
                *most = launch.shared_bytes.max(*most);
            }
            variants.push(SelectedVariant { case: case.name.clone(), variant, launched });
        }
        specializations.push(specialization);
    }
    Ok(variants)
}

impl Selected {
    /// Adds variants with new sources.
    fn add(&mut self, variants: Vec<SelectedVariant>) {
        for one in variants {
            if !self.variants.iter().any(|other| other.variant.hash == one.variant.hash) {
                self.variants.push(one);
            }
        }
    }
}

impl Row {
    /// Refuses a source that lacks a kernel of its launch plan. A device would find that out too late.
    fn with_every_kernel(self) -> Self {
        let Self { selected, result } = self;
        let result = result.and_then(|artifact| {
            let has = |name: &String| artifact.kernels.iter().any(|kernel| &kernel.name == name);
            match selected.launched.keys().find(|name| !has(name)) {
                Some(name) => Err(error!("it launches `{name}`, which is not an `extern \"C\"` kernel of the source")),
                None => Ok(artifact),
            }
        });
        Self { selected, result }
    }

    fn write_text(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let SelectedVariant { case, variant, launched } = &self.selected;
        let (family, params) = (&variant.family, show_params(&variant.params));
        writeln!(out, "{family} {} on {case}: {params}", variant.hash.short())?;
        match &self.result {
            Ok(artifact) => {
                for kernel in &artifact.kernels {
                    let dynamic = launched.get(&kernel.name);
                    if kernel.is_unknown() {
                        writeln!(out, "    {}: it came as PTX, so only the driver knows what it uses", kernel.name)?;
                        continue;
                    }
                    writeln!(
                        out,
                        "    {}: {} registers, {} + {} bytes shared memory (static + dynamic), {} bytes stack, {} + {} \
                         bytes spilled{}",
                        kernel.name,
                        kernel.registers,
                        kernel.shared_bytes,
                        dynamic.unwrap_or(&0),
                        kernel.stack_bytes,
                        kernel.spill_store_bytes,
                        kernel.spill_load_bytes,
                        if dynamic.is_some() { "" } else { "; not launched" }
                    )?;
                }
                for warning in artifact.warnings() {
                    writeln!(out, "    {warning}")?;
                }
            }
            Err(error) => writeln!(out, "    {error}")?,
        }
        Ok(())
    }

    fn write_json(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let (kernels, error) = match &self.result {
            Ok(artifact) => (artifact.kernels.as_slice(), None),
            Err(error) => (&[][..], Some(error.to_string())),
        };
        let object = serde_json::json!({
            "case": self.selected.case,
            "family": self.selected.variant.family,
            "params": self.selected.variant.params,
            "hash": self.selected.variant.hash,
            "launched": self.selected.launched.keys().collect::<Vec<_>>(),
            "dynamic_shared_bytes": self.selected.launched,
            "kernels": kernels,
            "error": error,
        });
        writeln!(out, "{object}")?;
        Ok(())
    }
}
