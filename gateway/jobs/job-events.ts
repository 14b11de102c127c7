/** One event of a job as its readers get it. */
export interface JobEvent {
  /** Grows by one within a job, from 1. */
  readonly id: number;
  readonly name: string;
  /** JSON text. */
  readonly data: string;
}

/** Somebody who follows the events: the answer waits for the slowest of them. */
export interface JobEventReader {
  /** Everything up to this event was read. */
  reached(id: number): void;
  /** Reads no more. */
  leave(): void;
}

/** What a reader can no longer have of the answer. */
export interface DroppedChunks {
  /** Id of the last piece that is gone. */
  readonly upTo: number;
  readonly count: number;
}

/** Bytes of the answer that are kept. */
const maxChunkBytes = 1024 * 1024;
/** Bytes that a reader may be behind before the answer waits for it: far fewer than are kept, so that it loses none. */
const maxBehindBytes = maxChunkBytes / 4;

/**
 * Events of one job: replayed from the start, then followed. Progress is always kept; pieces of the answer only up to a bound, the
 * oldest going first, so that a job that nobody reads costs bounded memory. Whoever comes later is told what is gone.
 */
export class JobEvents {
  readonly #events: JobEvent[] = [];
  readonly #listeners = new Set<() => void>();
  #lastId = 0;
  #chunkBytes = 0;
  /** All pieces up to this event are gone; 0 = none. */
  #droppedUpTo = 0;
  #closed = false;
  /** Ids that readers have reached. */
  readonly #readers = new Map<symbol, number>();
  #onCaughtUp: (() => void)[] = [];

  /** No event will follow. */
  get closed(): boolean {
    return this.#closed;
  }

  get lastId(): number {
    return this.#lastId;
  }

  /** Puts back an event that was remembered. Pieces of the answer never are: a gap behind the provider's consent was theirs. */
  restore(event: JobEvent): void {
    const before = this.#events.at(-1);
    if (before?.name === "provider_acked" && event.id > before.id + 1) this.#droppedUpTo = event.id - 1;
    this.#events.push(event);
    this.#lastId = Math.max(this.#lastId, event.id);
  }

  /** Adds an event and tells readers; returns its id. */
  add(name: string, data: string): number {
    this.#lastId += 1;
    this.#events.push({ id: this.#lastId, name, data });
    this.#tell();
    return this.#lastId;
  }

  /** Adds a piece of the answer. */
  addChunk(data: string): void {
    this.add(chunkEvent, data);
    this.#chunkBytes += data.length;
    while (this.#chunkBytes > maxChunkBytes) {
      const index = this.#events.findIndex(({ name }) => name === chunkEvent);
      const dropped = this.#events[index];
      if (dropped === undefined) break;
      this.#events.splice(index, 1);
      this.#chunkBytes -= dropped.data.length;
      this.#droppedUpTo = dropped.id;
    }
  }

  /** Pieces of the answer after an event that are gone; undefined when none is. */
  droppedAfter(id: number): DroppedChunks | undefined {
    const upTo = this.#droppedUpTo;
    if (id >= upTo) return undefined;
    const kept = this.after(id).findIndex((event) => event.id > upTo);
    return { upTo, count: upTo - id - (kept === -1 ? this.after(id).length : kept) };
  }

  /** A reader that has everything up to an event. */
  join(after: number): JobEventReader {
    const reader = Symbol("reader");
    this.#readers.set(reader, after);
    return {
      reached: (id) => {
        this.#readers.set(reader, id);
        this.#tellWhoWaits();
      },
      leave: () => {
        this.#readers.delete(reader);
        this.#tellWhoWaits();
      },
    };
  }

  /** Whether a reader is so far behind that the answer must wait for it. */
  get isBehind(): boolean {
    if (this.#readers.size === 0 || this.#chunkBytes <= maxBehindBytes) return false;
    let bytes = 0;
    for (const event of this.after(Math.min(...this.#readers.values()))) {
      if (event.name === chunkEvent) bytes += event.data.length;
      if (bytes > maxBehindBytes) return true;
    }
    return false;
  }

  /** Calls back once no reader is too far behind. */
  onCaughtUp(callback: () => void): void {
    this.#onCaughtUp.push(callback);
    this.#tellWhoWaits();
  }

  #tellWhoWaits(): void {
    if (this.#onCaughtUp.length === 0 || this.isBehind) return;
    const waiting = this.#onCaughtUp;
    this.#onCaughtUp = [];
    for (const callback of waiting) callback();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#tell();
  }

  /** Events after an id, in order. */
  after(id: number): readonly JobEvent[] {
    let low = 0;
    let high = this.#events.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#events[middle]?.id ?? 0) <= id) low = middle + 1;
      else high = middle;
    }
    return this.#events.slice(low);
  }

  /** Calls back at every new event and at the close; returns how to stop. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** Name of the event that carries one chunk of a streamed answer. */
export const chunkEvent = "chunk";
/** Name of what a reader is told in place of chunks that are gone; it has no id, as it is no event of the job. */
export const droppedEvent = "chunks_dropped";
