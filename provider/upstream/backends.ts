import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../protocol/clock.ts";
import type { BackendConfig } from "./backend-config.ts";
import { BackendConnection } from "./connection.ts";
import { BackendHealth, defaultProbeRhythm, type ProbeRhythm } from "./health.ts";
import { BackendProbe } from "./probe.ts";

/** A backend that is in use. */
export interface Backend {
  readonly config: BackendConfig;
  readonly connection: BackendConnection;
  readonly health: BackendHealth;
  /** Free tokens of its KV cache at the last probe; undefined where it does not tell. */
  readonly kvFreeTokens: number | undefined;
  /** Names the process behind the backend: another one after a restart, a change of models or of address. */
  readonly generation: string;
}

/** Options of `Backends`. */
export interface BackendsOptions {
  readonly clock: Clock;
  /** Makes a short unique word. */
  readonly mint: () => string;
  /** Called after a change of health or generation. */
  readonly changed: () => void;
  readonly rhythm?: ProbeRhythm;
}

/** The backends of the configuration in force, with their connections and health. */
export class Backends {
  readonly #options: BackendsOptions;
  #backends: ReadonlyMap<string, OpenBackend> = new Map();
  readonly #closing = new Set<Promise<void>>();

  constructor(options: BackendsOptions) {
    this.#options = options;
  }

  /** The backend of a name, if the configuration has it. */
  get(name: string): Backend | undefined {
    return this.#backends.get(name);
  }

  /** All backends. */
  all(): Iterable<Backend> {
    return this.#backends.values();
  }

  /**
   * Brings the set to a configuration: unchanged backends keep their connections, changed and removed ones finish their streams and
   * close. Resolves when new ones were probed once.
   */
  async apply(configs: ReadonlyMap<string, BackendConfig>): Promise<void> {
    const next = new Map<string, OpenBackend>();
    const added: OpenBackend[] = [];
    for (const [name, config] of configs) {
      const present = this.#backends.get(name);
      if (present !== undefined && isSame(present.config, config)) {
        next.set(name, present);
        continue;
      }
      const backend = new OpenBackend(config, this.#options);
      next.set(name, backend);
      added.push(backend);
    }
    const removed = [...this.#backends.values()].filter((backend) => next.get(backend.config.name) !== backend);
    this.#backends = next;
    for (const backend of removed) this.#retire(backend);
    await Promise.all(added.map(async (backend) => await backend.health.start()));
  }

  /** Stops probing and closes every connection at once. */
  async close(): Promise<void> {
    const backends = [...this.#backends.values()];
    this.#backends = new Map();
    for (const backend of backends) backend.health.stop();
    await Promise.allSettled([
      ...backends.map(async (backend) => await backend.connection.destroy()),
      ...this.#closing,
    ]);
  }

  #retire(backend: OpenBackend): void {
    backend.health.stop();
    const closing = backend.connection.close().catch(() => undefined);
    this.#closing.add(closing);
    void closing.finally(() => this.#closing.delete(closing));
  }
}

class OpenBackend implements Backend {
  readonly config: BackendConfig;
  readonly connection: BackendConnection;
  readonly health: BackendHealth;
  readonly #nonce: string;
  #kvFreeTokens: number | undefined;

  constructor(config: BackendConfig, options: BackendsOptions) {
    this.config = config;
    this.connection = new BackendConnection(config);
    const probe = new BackendProbe(this.connection, (facts) => {
      this.#kvFreeTokens = facts.kvFreeTokens;
    });
    this.health = new BackendHealth(
      options.clock,
      async () => await probe.run(),
      options.changed,
      options.rhythm ?? defaultProbeRhythm,
    );
    this.#nonce = options.mint();
  }

  get kvFreeTokens(): number | undefined {
    return this.#kvFreeTokens;
  }

  get generation(): string {
    return `${this.#nonce}.${this.health.epoch}`;
  }
}

function isSame(a: BackendConfig, b: BackendConfig): boolean {
  const { apiKey: keyA, ...restA } = a;
  const { apiKey: keyB, ...restB } = b;
  return keyA?.reveal() === keyB?.reveal() && isDeepStrictEqual(restA, restB);
}
