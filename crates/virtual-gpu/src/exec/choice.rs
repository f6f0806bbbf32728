//! The blocks to execute.

/// The clusters to execute: all, or a sample with one in the middle of each equal share of the grid. The sample is
/// symmetric, so work that grows along the grid (as under a causal mask) averages out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    clusters: u64,
    count: u64,
    /// What is executed in place of a sample.
    edges: Option<[u64; EDGES]>,
    /// The first one that is executed, where all later ones are, too.
    first: Option<u64>,
}

/// The clusters at the edges of a grid: the first, the last, and the last along each axis.
const EDGES: usize = 5;

impl Choice {
    /// Chooses about `sample` of the clusters, or all.
    pub fn new(clusters: u64, sample: Option<u32>) -> Self {
        Self {
            clusters,
            count: sample.map_or(clusters, |count| u64::from(count).min(clusters)),
            edges: None,
            first: None,
        }
    }

    /// Chooses the last `count` clusters.
    pub fn last(clusters: u64, count: u32) -> Self {
        let count = u64::from(count).min(clusters);
        Self { clusters, count, edges: None, first: Some(clusters - count) }
    }

    /// Chooses the clusters at the edges of a grid with so many along each axis.
    pub fn edges(grid: [u64; 3]) -> Self {
        let [x, y, z] = grid;
        let clusters = x * y * z;
        let mut edges = [0, x - 1, (y - 1) * x, (z - 1) * x * y, clusters - 1];
        edges.sort_unstable();
        // In grids with fewer axes, some are the same.
        let mut count = 1;
        for place in 1..EDGES {
            if edges[place] != edges[count - 1] {
                edges[count] = edges[place];
                count += 1;
            }
        }
        Self { clusters, count: count as u64, edges: Some(edges), first: None }
    }

    /// Returns the number of chosen clusters.
    pub fn count(self) -> u64 {
        self.count
    }

    /// Returns the cluster at a position of the sample.
    pub fn get(&self, index: u64) -> Option<u64> {
        let Self { clusters, count, edges, first } = *self;
        if let Some(first) = first {
            return (index < count).then_some(first + index);
        }
        if let Some(edges) = edges {
            return edges.get(index as usize).copied().filter(|_| index < count);
        }
        // In 128 bits, because the largest grids have 2^62 blocks.
        let [all, some] = [u128::from(clusters), u128::from(count)];
        let place = |index: u64| (((2 * u128::from(index) + 1) * all - some) / (2 * some)) as u64;
        let mirrored = count.checked_sub(index + 1)?;
        Some(if index <= mirrored { place(index) } else { clusters - 1 - place(mirrored) })
    }
}

#[cfg(test)]
mod tests {
    use super::Choice;

    fn choose(clusters: u64, sample: Option<u32>) -> Vec<u64> {
        let choice = Choice::new(clusters, sample);
        (0..choice.count).filter_map(|index| choice.get(index)).collect()
    }

    #[test]
    fn the_edges_of_a_grid_are_its_first_and_last_blocks_along_each_axis() {
        let edges = |grid| {
            let choice = Choice::edges(grid);
            (0..).map_while(|index| choice.get(index)).collect::<Vec<_>>()
        };
        assert_eq!(edges([1, 1, 1]), [0]);
        assert_eq!(edges([2048, 1, 1]), [0, 2047]);
        assert_eq!(edges([4, 3, 1]), [0, 3, 8, 11]);
        assert_eq!(edges([4, 3, 2]), [0, 3, 8, 12, 23]);
        let last = |clusters, count| {
            let choice = Choice::last(clusters, count);
            (0..).map_while(|index| choice.get(index)).collect::<Vec<_>>()
        };
        assert_eq!((last(9, 2), last(1, 2)), (vec![7, 8], vec![0]));
    }

    #[test]
    fn a_sample_lies_symmetrically_in_the_grid() {
        assert_eq!(choose(10, Some(4)), [0, 3, 6, 9]);
        assert_eq!(choose(7, Some(3)), [0, 3, 6]);
        for (clusters, count) in [(1000, 7), (64, 30), (33, 32), (5, 1)] {
            let chosen = choose(clusters, Some(count));
            assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]), "{chosen:?}");
            let mirrored: Vec<u64> = chosen.iter().rev().map(|index| clusters - 1 - index).collect();
            // The middle one of an even grid has no mirror image.
            assert!(chosen.iter().zip(&mirrored).all(|(a, b)| a.abs_diff(*b) <= 1), "{chosen:?}");
        }
        assert_eq!(choose(3, Some(3)), [0, 1, 2]);
        assert_eq!(choose(4, None), [0, 1, 2, 3]);
        assert!(choose(1 << 62, Some(5)).is_sorted());
    }
}
