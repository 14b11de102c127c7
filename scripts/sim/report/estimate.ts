/** A mean over seeds with the half width of its 95 % confidence interval. */
export interface Estimate {
  readonly mean: number;
  readonly ci95: number;
}

/** 97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom. */
const quantiles = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11,
  2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/** Mean and confidence interval of one value per seed; with one seed the interval is not known (NaN). */
export function estimateOf(values: readonly number[]): Estimate {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  if (values.length < 2) return { mean, ci95: Number.NaN };
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
  const quantile = quantiles[values.length - 2] ?? 1.96;
  return { mean, ci95: quantile * Math.sqrt(variance / values.length) };
}

/** Change of an arm against another in percent, seed by seed: what the seeds have in common cancels. */
export function pairedChange(values: readonly number[], base: readonly number[]): Estimate {
  return estimateOf(values.map((value, index) => (100 * (value - (base[index] as number))) / (base[index] as number)));
}

/** Value below which a share of the numbers lies; NaN of none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = Float64Array.from(values).toSorted();
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

/** Arithmetic mean; NaN of none. */
export function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
