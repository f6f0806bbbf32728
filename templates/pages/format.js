// Writes figures with their units, as reports do.

const digits = (value) => (Math.abs(value) >= 1000 ? value.toFixed(0) : value.toPrecision(4));
const given = (value) => value !== null && value !== undefined;

/** A time in microseconds. */
export const micros = (us) => (given(us) ? `${digits(us)} µs` : null);

/** A ratio: how many times as fast. */
export const times = (ratio) => (given(ratio) ? `${ratio >= 100 ? ratio.toFixed(0) : ratio.toPrecision(3)}×` : null);

/** A ratio with its 95% interval, if there is one. */
export function interval(ratio, range) {
  if (!given(ratio)) return null;
  const four = (value) => (value >= 1000 ? value.toFixed(0) : value.toPrecision(4));
  return given(range?.[0]) && given(range[1]) ? `${four(ratio)}× (${four(range[0])} to ${four(range[1])})` : `${times(ratio)} (no interval)`;
}

/** The ends of a 95% interval of times in microseconds, if there is one: fewer than three samples have none. */
export const range = (ends) => (given(ends?.[0]) && given(ends[1]) ? `${micros(ends[0])} to ${micros(ends[1])}` : null);

/** A share. */
export const percent = (share) => (given(share) ? `${(share * 100).toPrecision(2)}%` : null);

/** US dollars. */
export const dollars = (usd) => (given(usd) ? `$${usd.toFixed(2)}` : null);

/** A length of time in seconds. */
export function duration(seconds) {
  if (!given(seconds)) return null;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : seconds.toFixed(0)} s`;
  const whole = Math.round(seconds), minutes = Math.floor(whole / 60) % 60, hours = Math.floor(whole / 3600);
  return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min ${whole % 60} s`;
}

/** An instant, in the time zone of the reader. */
export const instant = (text) => (given(text) ? new Date(text).toLocaleString() : null);

const MOST_OF_A_TEXT = 140;

/** The beginning of a long text, where another page has all of it. */
export const brief = (text) => (text?.length > MOST_OF_A_TEXT ? `${text.slice(0, MOST_OF_A_TEXT)}…` : text);

/** Parameters with their values. */
export const parameters = (values) => Object.entries(values ?? {}).map(([name, value]) => `${name}=${value}`).join(" ");
