/** The client's own request id when it is short and printable, else a new one. */
export function requestIdOf(given: string | readonly string[] | undefined, mint: () => string): string {
  return typeof given === "string" && /^[\x21-\x7e]{1,128}$/.test(given) ? given : mint();
}
