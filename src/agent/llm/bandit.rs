//! Chooses the model and the form of the next answer: a bandit on the logarithm of gain per dollar.

/// The results of one model, or of one form of answers, so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TrackRecord {
    /// Approaches that have been tried or abandoned.
    pub concluded: u32,
    /// The sum of their gains: logarithms of speed-ups over the fastest variant before. Approaches that were not faster
    /// add nothing.
    pub ln_gain: f64,
    /// US dollars of all calls.
    pub usd: f64,
}

/// The prior gain of a model, 2%, so that one lucky approach does not decide.
const PRIOR_LN_GAIN: f64 = 0.02;

/// The prior cost of that gain in US dollars: about the price of a plan and its code with a medium-priced model.
const PRIOR_USD: f64 = 0.05;

/// The weight of the bonus for models that were tried less often than others (UCB1; Auer et al., 2002). Gains are
/// small: with 1, exploration would never end.
const EXPLORATION: f64 = 0.5;

/// The fewest concluded approaches after which the search by models may end because it is not worth its cost.
const MIN_CONCLUDED: u32 = 6;

/// The smallest expected gain of an approach that is worth a call: the resolution of a comparison.
const MIN_LN_GAIN: f64 = 0.002;

impl TrackRecord {
    /// Returns the expected gain per dollar.
    fn rate(&self) -> f64 {
        (self.ln_gain + PRIOR_LN_GAIN) / (self.usd + PRIOR_USD)
    }

    /// Returns an optimistic estimate of an approach's gain: the mean so far, with one more approach that gained as
    /// much as the prior.
    fn optimistic_ln_gain(&self) -> f64 {
        (self.ln_gain + PRIOR_LN_GAIN) / f64::from(self.concluded + 1)
    }
}

/// Returns the index of the model to call. None if there are no models.
pub fn choose(models: &[TrackRecord]) -> Option<usize> {
    let concluded: u32 = models.iter().map(|model| model.concluded).sum();
    let best = models.iter().map(TrackRecord::rate).fold(f64::MIN_POSITIVE, f64::max);
    let score = |model: &TrackRecord| {
        let bonus = (2.0 * f64::from(concluded + 1).ln() / f64::from(model.concluded + 1)).sqrt();
        model.rate() / best + EXPLORATION * bonus
    };
    // Ties go to the first one, because the user's order is a preference.
    (0..models.len()).rev().max_by(|a, b| score(&models[*a]).total_cmp(&score(&models[*b])))
}

/// Scores an approach for being coded: its predicted gain times the gain per dollar of its form so far.
pub fn code_score(predicted_ln_gain: f64, form: &TrackRecord) -> f64 {
    (predicted_ln_gain + MIN_LN_GAIN) * form.rate()
}

/// Tells whether the expected gain of every model is below the resolution of a comparison.
pub fn has_no_expected_gain(models: &[TrackRecord]) -> bool {
    !models.is_empty()
        && models.iter().all(|model| model.concluded >= MIN_CONCLUDED && model.optimistic_ln_gain() < MIN_LN_GAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worth(concluded: u32, gain: f64, usd: f64) -> TrackRecord {
        TrackRecord { concluded, ln_gain: gain.ln(), usd }
    }

    #[test]
    fn the_first_model_is_asked_first_and_then_the_one_that_was_not() {
        assert_eq!(choose(&[]), None);
        assert_eq!(choose(&[TrackRecord::default(), TrackRecord::default()]), Some(0));
        assert_eq!(choose(&[worth(3, 1.0, 0.1), TrackRecord::default()]), Some(1));
    }

    #[test]
    fn models_that_gain_more_per_dollar_are_called_more_often() {
        let mut models = [worth(0, 1.0, 0.0), worth(0, 1.0, 0.0)];
        let mut asked = [0, 0];
        for _ in 0..60 {
            let place = choose(&models).unwrap();
            asked[place] += 1;
            // The second gains as much as the first at a tenth of the cost.
            models[place].concluded += 1;
            models[place].ln_gain += 1.02_f64.ln();
            models[place].usd += [0.5, 0.05][place];
        }
        assert!(asked[1] > 2 * asked[0] && asked[0] > 0, "{asked:?}");
    }

    #[test]
    fn a_form_that_pays_is_coded_before_one_that_predicts_a_little_more() {
        let (edits, family) = (worth(4, 1.2, 0.2), worth(4, 1.0, 0.8));
        assert!(code_score(1.1_f64.ln(), &edits) > code_score(1.3_f64.ln(), &family));
        assert!(code_score(1.3_f64.ln(), &TrackRecord::default()) > code_score(1.1_f64.ln(), &TrackRecord::default()));
    }

    #[test]
    fn models_without_gains_are_given_up_after_a_while() {
        assert!(!has_no_expected_gain(&[]) && !has_no_expected_gain(&[worth(5, 1.0, 1.0)]));
        assert!(has_no_expected_gain(&[worth(12, 1.0, 1.0)]));
        assert!(!has_no_expected_gain(&[worth(12, 1.0, 1.0), worth(1, 1.0, 1.0)]), "another one may be better");
        assert!(!has_no_expected_gain(&[worth(12, 1.3, 1.0)]));
    }
}
