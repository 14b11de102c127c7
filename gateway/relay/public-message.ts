const maxLength = 300;

/**
 * A provider's or backend's words in a form that may be shown to a client: one line of bounded length without control or invisible
 * characters, addresses of machines or anything that looks like a key. Markup stays as it is: the text travels as a JSON string under
 * `nosniff`, and whoever puts it into a page must escape it like any other text.
 */
export function publicMessage(text: unknown, fallback: string): string {
  if (typeof text !== "string") return fallback;
  const clean = text
    .slice(0, 4 * maxLength)
    // First of all: marks that turn or hide text would let it read as something else, or a key as none.
    .replaceAll(/[\p{Cf}\p{Co}\p{Cs}]+/gu, "")
    .replaceAll(/[a-z][a-z0-9+.-]{1,12}:\/\/[^\s"'<>]+/gi, "[address]")
    .replaceAll(/\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/g, "[address]")
    .replaceAll(/\b(?:sk|pk|key|hf|gsk)[-_][A-Za-z0-9_-]{8,}/g, "[key]")
    .replaceAll(/\bBearer\s+\S+/gi, "[key]")
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")
    .trim();
  if (clean === "") return fallback;
  return clean.length <= maxLength ? clean : `${clean.slice(0, maxLength)}…`;
}
