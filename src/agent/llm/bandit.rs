//! Chooses the model and the form of the next answer: a bandit on the logarithm of gain per dollar.

/// What is known of one model, or of one form of answers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Worth {
    /// Approaches that have been tried or given up.
    pub settled: u32,
    /// Their gains together: the sum of logarithms of speed-ups over what was the fastest before. Approaches that were not
    /// faster add nothing.
    pub ln_gain: f64,
    /// US dollars of all calls.
    pub usd: f64,
}

/// What a model is taken to have gained before it is known, so that one lucky approach does not decide: 2%.
const PRIOR_LN_GAIN: f64 = 0.02;

/// What it is taken to have spent for that, in US dollars: about the price of a plan and its code with a model of middling
/// price.
const PRIOR_USD: f64 = 0.05;

/// The weight of the bonus for models that were tried less often than others (UCB1; Auer et al., 2002). Gains are small:
/// with 1, exploration would never end.
const EXPLORATION: f64 = 0.5;

/// The least approaches that have settled before the search by models may be given up as not worth its money.
const LEAST_SETTLED: u32 = 6;

/// The least expected gain of an approach for which it is worth asking: what a comparison resolves.
const LEAST_LN_GAIN: f64 = 0.002;

impl Worth {
    /// Returns the expected gain per dollar.
    fn rate(&self) -> f64 {
        (self.ln_gain + PRIOR_LN_GAIN) / (self.usd + PRIOR_USD)
    }

    /// Returns the gain that an approach may be expected to have, at the upper end: the mean of those so far with one more
    /// that gained as much as the prior.
    fn hoped_ln_gain(&self) -> f64 {
        (self.ln_gain + PRIOR_LN_GAIN) / f64::from(self.settled + 1)
    }
}

/// Returns the place of the model to ask. None if there is none.
pub fn choose(models: &[Worth]) -> Option<usize> {
    let settled: u32 = models.iter().map(|model| model.settled).sum();
    let best = models.iter().map(Worth::rate).fold(f64::MIN_POSITIVE, f64::max);
    let score = |model: &Worth| {
        let bonus = (2.0 * f64::from(settled + 1).ln() / f64::from(model.settled + 1)).sqrt();
        model.rate() / best + EXPLORATION * bonus
    };
    // The first among equals: the user's order is a preference.
    (0..models.len()).rev().max_by(|a, b| score(&models[*a]).total_cmp(&score(&models[*b])))
}

/// Returns how much an approach is worth its code: the gain that it predicts, by the gain per dollar of its form so far.
pub fn worth_of_code(predicted_ln_gain: f64, form: &Worth) -> f64 {
    (predicted_ln_gain + LEAST_LN_GAIN) * form.rate()
}

/// Tells whether no model may be expected to gain what a comparison resolves.
pub fn is_spent(models: &[Worth]) -> bool {
    !models.is_empty()
        && models.iter().all(|model| model.settled >= LEAST_SETTLED && model.hoped_ln_gain() < LEAST_LN_GAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worth(settled: u32, gain: f64, usd: f64) -> Worth {
        Worth { settled, ln_gain: gain.ln(), usd }
    }

    #[test]
    fn the_first_model_is_asked_first_and_then_the_one_that_was_not() {
        assert_eq!(choose(&[]), None);
        assert_eq!(choose(&[Worth::default(), Worth::default()]), Some(0));
        assert_eq!(choose(&[worth(3, 1.0, 0.1), Worth::default()]), Some(1));
    }

    #[test]
    fn what_gains_more_for_its_money_is_asked_more_often() {
        let mut models = [worth(0, 1.0, 0.0), worth(0, 1.0, 0.0)];
        let mut asked = [0, 0];
        for _ in 0..60 {
            let place = choose(&models).unwrap();
            asked[place] += 1;
            // The second gains as much as the first, for a tenth of the money.
            models[place].settled += 1;
            models[place].ln_gain += 1.02_f64.ln();
            models[place].usd += [0.5, 0.05][place];
        }
        assert!(asked[1] > 2 * asked[0] && asked[0] > 0, "{asked:?}");
    }

    #[test]
    fn a_form_that_pays_is_coded_before_one_that_predicts_a_little_more() {
        let (edits, family) = (worth(4, 1.2, 0.2), worth(4, 1.0, 0.8));
        assert!(worth_of_code(1.1_f64.ln(), &edits) > worth_of_code(1.3_f64.ln(), &family));
        assert!(worth_of_code(1.3_f64.ln(), &Worth::default()) > worth_of_code(1.1_f64.ln(), &Worth::default()));
    }

    #[test]
    fn models_without_gains_are_given_up_after_a_while() {
        assert!(!is_spent(&[]) && !is_spent(&[worth(5, 1.0, 1.0)]));
        assert!(is_spent(&[worth(12, 1.0, 1.0)]));
        assert!(!is_spent(&[worth(12, 1.0, 1.0), worth(1, 1.0, 1.0)]), "another one may be better");
        assert!(!is_spent(&[worth(12, 1.3, 1.0)]));
    }
}
