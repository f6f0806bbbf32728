//! What a session costs.

use serde::{Deserialize, Serialize};

/// The price of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// US dollars per hour for which the device is held.
    pub gpu_usd_per_hour: f64,
}

/// The money and device time spent so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Seconds for which the device was held. A rented GPU is billed while it is held, whether busy or idle.
    pub gpu_s: f64,
    /// US dollars for the device.
    pub gpu_usd: f64,
    /// US dollars for language models.
    pub llm_usd: f64,
}

/// Calls of language models whose cost is not known: the answer did not come whole, or without its tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct UnknownCosts {
    /// Their number.
    pub calls: u64,
    /// What they count for in [`Spent`], in US dollars: an estimate from the bytes that came, or the most.
    pub usd: f64,
    /// The most that they can have cost.
    pub at_most_usd: f64,
}

impl Spent {
    /// Returns the cost of holding a device for `gpu_s` seconds.
    pub fn holding(gpu_s: f64, rate: Rate) -> Self {
        Self { gpu_s, gpu_usd: gpu_s / 3600.0 * rate.gpu_usd_per_hour, llm_usd: 0.0 }
    }

    /// Returns the sum in US dollars.
    pub fn total_usd(&self) -> f64 {
        self.gpu_usd + self.llm_usd
    }
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.gpu_s += other.gpu_s;
        self.gpu_usd += other.gpu_usd;
        self.llm_usd += other.llm_usd;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the ledger of the first notebooks: 55 minutes of an L4 at $0.20 an hour are $0.18.
    #[test]
    fn an_hour_on_the_ledger_costs_its_rate() {
        let spent = Spent::holding(55.0 * 60.0, Rate { gpu_usd_per_hour: 0.20 });
        assert_eq!(format!("{:.2}", spent.total_usd()), "0.18");
    }
}
