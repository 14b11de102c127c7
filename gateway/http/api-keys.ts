import { createHash, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { T4tError } from "../../protocol/errors.ts";

/** Who may use the gateway. Holds digests only, so that no dump shows a key. */
export class ApiKeys {
  readonly #digests: readonly Buffer[];

  constructor(keys: Iterable<string>) {
    this.#digests = [...new Set(keys)].map(digest);
  }

  /** False: no keys are configured and everybody may. */
  get required(): boolean {
    return this.#digests.length > 0;
  }

  /**
   * Checks an `Authorization` header; returns a name for the key that gives nothing of it away, null when no keys are configured.
   * Throws `invalid_api_key`. Compares digests in constant time against all keys, so that the time says nothing about any of them.
   */
  check(authorization: string | undefined): string | null {
    if (!this.required) return null;
    if (authorization === undefined || authorization.trim() === "") {
      throw new T4tError(
        "invalid_api_key",
        "You didn't provide an API key. Send it as: Authorization: Bearer YOUR_KEY.",
      );
    }
    const token = /^Bearer +(\S+) *$/i.exec(authorization)?.[1];
    const given = digest(token ?? "");
    let known = false;
    for (const one of this.#digests) known = timingSafeEqual(one, given) || known;
    if (token === undefined || !known) throw new T4tError("invalid_api_key", "Incorrect API key provided.");
    return given.toString("hex").slice(0, 16);
  }
}

/** Keys of a file: one a line, blank lines and lines that start with # left out. */
export function readKeyFile(path: string): readonly string[] {
  return readFileSync(path, "utf8")
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"));
}

function digest(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}
