const maxLength = 300;

/**
 * A provider's or backend's words in a form that may be shown to a client: one line of bounded length without markup, control
 * characters, addresses of machines or anything that looks like a key.
 */
export function publicMessage(text: unknown, fallback: string): string {
  if (typeof text !== "string") return fallback;
  const clean = text
    .slice(0, 4 * maxLength)
    .replaceAll(/[a-z][a-z0-9+.-]{1,12}:\/\/[^\s"']+/gi, "[address]")
    .replaceAll(/\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/g, "[address]")
    .replaceAll(/\b(?:sk|pk|key|hf|gsk)[-_][A-Za-z0-9_-]{8,}/g, "[key]")
    .replaceAll(/\bBearer\s+\S+/gi, "[key]")
    .replaceAll(/<[/!a-z][^>]*>/gi, "")
    // What is left of a tag that was never closed cannot open one.
    .replaceAll("<", "‹")
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")
    .trim();
  if (clean === "") return fallback;
  return clean.length <= maxLength ? clean : `${clean.slice(0, maxLength)}…`;
}
