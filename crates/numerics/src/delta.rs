//! The state of a linear attention with a delta rule, in float64: a row of values for each channel of the keys.

/// Multiplies each row of the state by its decay, and returns the sum of the rows, each times its channel of the key: what the state
/// has stored under the key.
pub fn decay_and_recall(state: &mut [f64], decays: &[f64], key: &[f32], recalled: &mut [f64]) {
    recalled.fill(0.0);
    for ((row, decay), key) in state.chunks_exact_mut(recalled.len()).zip(decays).zip(key) {
        let key = f64::from(*key);
        for (value, recalled) in row.iter_mut().zip(recalled.iter_mut()) {
            *value *= decay;
            *recalled += key * *value;
        }
    }
}

/// Adds `written` to each row of the state, times the row's channel of the key.
pub fn write(state: &mut [f64], key: &[f32], written: &[f64]) {
    for (row, key) in state.chunks_exact_mut(written.len()).zip(key) {
        let key = f64::from(*key);
        row.iter_mut().zip(written).for_each(|(value, written)| *value += key * written);
    }
}

/// Adds the rows of the state to `read`, each times its channel of the query and `scale`.
pub fn read(state: &[f64], query: &[f32], scale: f64, read: &mut [f64]) {
    for (row, query) in state.chunks_exact(read.len()).zip(query) {
        let query = scale * f64::from(*query);
        row.iter().zip(read.iter_mut()).for_each(|(value, read)| *read += query * value);
    }
}
