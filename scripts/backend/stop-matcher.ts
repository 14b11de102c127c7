/** What a piece of text gives: the part that may be shown, and whether a stop text came. */
export interface StopResult {
  readonly text: string;
  readonly stopped: boolean;
}

/**
 * Looks for stop texts in a text that comes in pieces. It holds back what may be the beginning of one, shows everything before the
 * first that is complete, and nothing of it.
 */
export class StopMatcher {
  readonly #stops: readonly string[];
  #held = "";

  constructor(stops: readonly string[]) {
    this.#stops = stops.filter((stop) => stop !== "");
  }

  push(piece: string): StopResult {
    if (this.#stops.length === 0) return { text: piece, stopped: false };
    const text = this.#held + piece;
    const found = this.#stops.map((stop) => text.indexOf(stop)).filter((index) => index !== -1);
    if (found.length > 0) {
      this.#held = "";
      return { text: text.slice(0, Math.min(...found)), stopped: true };
    }
    const shown = text.length - Math.max(...this.#stops.map((stop) => overlap(text, stop)));
    this.#held = text.slice(shown);
    return { text: text.slice(0, shown), stopped: false };
  }

  /** The text that was held back, when no more comes. */
  end(): string {
    const text = this.#held;
    this.#held = "";
    return text;
  }
}

/** Length of the longest end of the text that begins the stop text. */
function overlap(text: string, stop: string): number {
  for (let length = Math.min(text.length, stop.length - 1); length > 0; length -= 1) {
    if (text.endsWith(stop.slice(0, length))) return length;
  }
  return 0;
}
