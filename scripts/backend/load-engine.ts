import { type Engine, EngineUnavailableError } from "./engine.ts";
import { createLlamaEngine } from "./llama-engine.ts";
import { createTextEngine } from "./text-model.ts";

/** `auto` = llama where it runs, else text. */
export const engineKinds = ["auto", "llama", "text"] as const;
export type EngineKind = (typeof engineKinds)[number];

export interface LoadEngineOptions {
  readonly kind: EngineKind;
  /** Folder for the model file of the llama engine. */
  readonly dataDir: string;
  /** Told in one line when `auto` falls back. */
  readonly log: (line: string) => void;
}

/** The engine that was asked for. Throws `EngineUnavailableError` when that is `llama` and it cannot run here. */
export async function loadEngine({ kind, dataDir, log }: LoadEngineOptions): Promise<Engine> {
  if (kind === "text") return createTextEngine();
  try {
    return await createLlamaEngine({ dataDir });
  } catch (error) {
    if (kind === "llama" || !(error instanceof EngineUnavailableError)) throw error;
    log(`${error.message}; the text engine takes its place`);
    return createTextEngine();
  }
}
