//! What stands in place of an asynchronous copy to shared memory while others stay: its bytes arrive at once.
//!
//! A bulk copy tells an mbarrier how many bytes have arrived, and the mbarrier expects those of all its copies. An operation that
//! tells the same without a copy keeps the others as they are (PTX ISA, "mbarrier.complete_tx").

use super::parameters::Parameters;
use super::statement::Instruction;
use super::steering::Kernel;

/// Returns what stands in place of a copy: nothing if no mbarrier expects its bytes. None if its bytes are not known, or arrive in
/// several blocks.
pub(super) fn of(copy: &Instruction<'_>, kernel: &Kernel<'_, '_>, parameters: &Parameters) -> Option<String> {
    if !copy.has("bulk") {
        return Some(String::new());
    }
    let is_own = copy.has("global") && copy.has("mbarrier::complete_tx::bytes") && !copy.has("multicast::cluster");
    let is_tile =
        !copy.opcode.contains("im2col") && !copy.opcode.contains("gather") && !copy.opcode.contains("cta_group");
    if !is_own || !is_tile {
        return None;
    }
    let (bytes, mbarrier) = match (&copy.operands[..], copy.has("tensor")) {
        ([_, _, mbarrier, ..], true) => (parameters.box_bytes(kernel.tensor_map(copy)?)?.to_string(), mbarrier),
        ([_, _, bytes, mbarrier, ..], false) => ((*bytes).to_owned(), mbarrier),
        _ => return None,
    };
    Some(format!("{} mbarrier.complete_tx.relaxed.cta.shared::cta.b64 {mbarrier}, {bytes};", copy.guard))
}
