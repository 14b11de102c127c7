/** Tokens of one answer as the backend counts them. Non-negative safe integers. */
export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** Whether two usages are the same to the token. */
export function sameUsage(a: Usage, b: Usage): boolean {
  return a.inputTokens === b.inputTokens && a.outputTokens === b.outputTokens;
}
