/** A half-open span of time, in monotonic ms. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * Measures the union of intervals as they become known, in any order: each `cover` says how much time it adds to what was covered
 * before. Concurrent requests that one engine works on together are thus counted once.
 */
export class IntervalUnion {
  /** Disjoint, ascending, not touching. */
  #spans: Span[] = [];

  /** Adds an interval; returns the ms of it that no earlier interval covered. An interval that ends before it starts is empty. */
  cover(start: number, end: number): number {
    if (!(end > start)) return 0;
    let added = end - start;
    let from = start;
    let to = end;
    const kept: Span[] = [];
    for (const span of this.#spans) {
      if (span.end < start || span.start > end) {
        kept.push(span);
        continue;
      }
      added -= Math.max(0, Math.min(span.end, end) - Math.max(span.start, start));
      from = Math.min(from, span.start);
      to = Math.max(to, span.end);
    }
    const at = kept.findIndex((span) => span.start > from);
    kept.splice(at === -1 ? kept.length : at, 0, { start: from, end: to });
    this.#spans = kept;
    return Math.max(0, added);
  }

  /** Forgets what lies before `start`: allowed once no interval to come starts earlier. Keeps the memory bounded. */
  forgetBefore(start: number): void {
    this.#spans = this.#spans.filter((span) => span.end >= start);
  }

  /** Number of spans held. */
  get size(): number {
    return this.#spans.length;
  }
}
