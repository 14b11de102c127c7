/** The value below which `share` (0..1) of the samples lie, by the nearest-rank rule; NaN for no samples. */
export function percentile(samples: readonly number[], share: number): number {
  if (samples.length === 0) return Number.NaN;
  const sorted = samples.toSorted((a, b) => a - b);
  const rank = Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1));
  return sorted[rank] ?? Number.NaN;
}

/** The middle sample. */
export function median(samples: readonly number[]): number {
  return percentile(samples, 0.5);
}
