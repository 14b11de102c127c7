/** One event of a job as its readers get it. */
export interface JobEvent {
  /** Grows by one within a job, from 1. */
  readonly id: number;
  readonly name: string;
  /** JSON text. */
  readonly data: string;
}

const maxChunkBytes = 1024 * 1024;

/**
 * Events of one job: replayed from the start, then followed. Progress is always kept; pieces of the answer only up to a bound, the
 * oldest going first, so that a job that nobody reads costs bounded memory.
 */
export class JobEvents {
  readonly #events: JobEvent[] = [];
  readonly #listeners = new Set<() => void>();
  #lastId = 0;
  #chunkBytes = 0;
  #closed = false;

  /** No event will follow. */
  get closed(): boolean {
    return this.#closed;
  }

  get lastId(): number {
    return this.#lastId;
  }

  /** Puts back an event of an earlier process. */
  restore(event: JobEvent): void {
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
    }
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
