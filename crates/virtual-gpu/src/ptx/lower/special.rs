//! Special registers.

use crate::program::{BlockSpecial, LaneSpecial};

/// Returns the special register with this name that is uniform in a block.
pub(super) fn block(name: &str) -> Option<BlockSpecial> {
    let (stem, axis) = split(name.strip_prefix('%')?);
    let of_axis = match stem {
        "ntid" => BlockSpecial::BlockDim,
        "ctaid" => BlockSpecial::BlockIndex,
        "nctaid" => BlockSpecial::GridDim,
        "clusterid" => BlockSpecial::ClusterIndex,
        "nclusterid" => BlockSpecial::ClusterGridDim,
        "cluster_ctaid" => BlockSpecial::ClusterBlockIndex,
        "cluster_nctaid" => BlockSpecial::ClusterDim,
        _ => return scalar(stem).filter(|_| axis.is_none()),
    };
    Some(of_axis(axis.flatten()?))
}

fn scalar(stem: &str) -> Option<BlockSpecial> {
    Some(match stem {
        "cluster_ctarank" => BlockSpecial::ClusterRank,
        "cluster_nctarank" => BlockSpecial::ClusterSize,
        "smid" => BlockSpecial::Multiprocessor,
        "nsmid" => BlockSpecial::Multiprocessors,
        "nwarpid" => BlockSpecial::Warps,
        "gridid" => BlockSpecial::GridId,
        "dynamic_smem_size" => BlockSpecial::DynamicSharedBytes,
        "total_smem_size" => BlockSpecial::TotalSharedBytes,
        "reserved_smem_offset_begin" | "reserved_smem_offset_end" | "reserved_smem_offset_cap" => BlockSpecial::Zero,
        // Where CUDA's cooperative groups find the address.
        "envreg1" => BlockSpecial::GridWorkspace { high: true },
        "envreg2" => BlockSpecial::GridWorkspace { high: false },
        _ if is_environment(stem) => BlockSpecial::Zero,
        _ => return None,
    })
}

/// Returns whether a name is one of `envreg0` to `envreg31`.
fn is_environment(stem: &str) -> bool {
    let number = stem.strip_prefix("envreg").filter(|number| number.len() < 3);
    number.and_then(|number| number.parse::<u8>().ok()).is_some_and(|number| number < 32)
}

/// Returns the special register with this name that differs between threads or changes over time.
pub(super) fn lane(name: &str) -> Option<LaneSpecial> {
    let (stem, axis) = split(name.strip_prefix('%')?);
    if stem == "tid" {
        return axis.flatten().map(LaneSpecial::ThreadIndex);
    }
    let special = match stem {
        "laneid" => LaneSpecial::LaneId,
        "warpid" => LaneSpecial::WarpId,
        "lanemask_eq" => LaneSpecial::LaneMaskEq,
        "lanemask_le" => LaneSpecial::LaneMaskLe,
        "lanemask_lt" => LaneSpecial::LaneMaskLt,
        "lanemask_ge" => LaneSpecial::LaneMaskGe,
        "lanemask_gt" => LaneSpecial::LaneMaskGt,
        "clock" => LaneSpecial::Clock,
        "clock64" => LaneSpecial::Clock64,
        "globaltimer" | "globaltimer_lo" => LaneSpecial::GlobalTimer,
        _ => return None,
    };
    axis.is_none().then_some(special)
}

/// Returns whether a name is a special register of the machine that is of neither kind.
pub(super) fn is_unknown(name: &str) -> bool {
    let stem = name.trim_start_matches('%').trim_end_matches(|byte: char| byte.is_ascii_digit());
    name.starts_with('%')
        && (name.contains('.')
            || matches!(
                stem,
                "envreg"
                    | "pm"
                    | "clock_hi"
                    | "globaltimer_hi"
                    | "is_explicit_cluster"
                    | "aggr_smem_size"
                    | "current_graph_exec"
                    | "reserved_smem_offset_"
            ))
}

/// Splits `ntid.x` into its stem and its axis. The inner option is None if the suffix is not an axis.
fn split(name: &str) -> (&str, Option<Option<u8>>) {
    match name.split_once('.') {
        None => (name, None),
        Some((stem, axis)) => {
            let axis = match axis {
                "x" => Some(0),
                "y" => Some(1),
                "z" => Some(2),
                _ => None,
            };
            (stem, Some(axis))
        }
    }
}
