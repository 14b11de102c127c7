import { type FSWatcher, watch } from "node:fs";
import { dirname } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../protocol/clock.ts";
import type { Environment } from "../../protocol/settings.ts";
import { readEndpointsFile } from "./endpoints-file.ts";
import type { EndpointsConfig, EndpointsSource } from "./endpoints-source.ts";

/** Options of `openEndpointsStore`. */
export interface EndpointsStoreOptions {
  readonly source: EndpointsSource;
  readonly environment: Environment;
  readonly clock: Clock;
  /** Called with each configuration that replaces another. */
  readonly onChange: (config: EndpointsConfig) => void;
  /** Called when a changed file cannot be used; the configuration before it stands. */
  readonly onFault: (error: unknown) => void;
}

/** The endpoints in force. */
export interface EndpointsStore {
  readonly current: EndpointsConfig;
  /** Reads the file again; resolves when it has been taken or refused. */
  reload(): Promise<void>;
  close(): void;
}

/** Editors write in several steps; a change is read when they have come to rest. */
const restMs = 100;
/** How often the file is looked at without being told: some file systems tell nothing. */
const lookMs = 5_000;

/**
 * Opens the endpoints and follows their file while it changes. A bad file keeps what is in force.
 *
 * @throws EndpointsFileError when the file cannot be used at the start.
 */
export async function openEndpointsStore(options: EndpointsStoreOptions): Promise<EndpointsStore> {
  const { source, environment, clock, onChange, onFault } = options;
  if (source.kind === "simple") {
    return { current: source.endpoints, reload: async () => undefined, close: () => undefined };
  }
  let current = await readEndpointsFile(source.path, environment);
  let lastFault: string | undefined;
  let reloading: Promise<void> = Promise.resolve();
  let isClosed = false;

  const reloadOnce = async (): Promise<void> => {
    try {
      const next = await readEndpointsFile(source.path, environment);
      lastFault = undefined;
      if (isClosed || isSame(current, next)) return;
      current = next;
      onChange(next);
    } catch (error) {
      // A file that stays bad is complained of once.
      const fault = error instanceof Error ? error.message : String(error);
      if (!isClosed && fault !== lastFault) onFault(error);
      lastFault = fault;
    }
  };
  const reload = async (): Promise<void> => {
    reloading = reloading.then(reloadOnce);
    await reloading;
  };

  let cancelRest = (): void => undefined;
  const soon = (): void => {
    cancelRest();
    cancelRest = clock.after(restMs, () => void reload());
  };
  // The directory, not the file: an editor replaces the file, and a watch on it would follow the old one.
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(dirname(source.path), { persistent: false }, soon);
    watcher.on("error", () => undefined);
  } catch {
    // The look every few seconds does.
  }
  let cancelLook = (): void => undefined;
  const look = (): void => {
    cancelLook = clock.after(lookMs, () => {
      void reload().finally(() => {
        if (!isClosed) look();
      });
    });
  };
  look();

  return {
    get current() {
      return current;
    },
    reload,
    close: () => {
      isClosed = true;
      cancelRest();
      cancelLook();
      watcher?.close();
    },
  };
}

function isSame(a: EndpointsConfig, b: EndpointsConfig): boolean {
  return isDeepStrictEqual(comparable(a), comparable(b));
}

/** Secrets compare by what they hold, which deep equality cannot see. */
function comparable(config: EndpointsConfig) {
  const backends = [...config.backends.values()].map((backend) => ({ ...backend, apiKey: backend.apiKey?.reveal() }));
  return { backends, offerings: [...config.offerings.values()], maxConcurrentJobs: config.maxConcurrentJobs };
}
