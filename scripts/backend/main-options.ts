import { parseArgs } from "node:util";
import { type EngineKind, engineKinds } from "./load-engine.ts";

/** What the command line of the backend says. */
export interface MainOptions {
  readonly host: string;
  readonly port: number;
  readonly engine: EngineKind;
  readonly models: readonly string[];
  readonly dataDir: string;
  readonly tokenDelayMs: number;
  readonly promptTokenDelayMs: number;
  readonly slots: number | undefined;
  readonly apiKey: string | undefined;
}

export const usage = `Usage: node backend/main.ts [options]
An OpenAI-compatible inference server with a small built-in model.
  --host HOST                    address to listen on (127.0.0.1)
  --port N                       0 = any free port (8080)
  --engine ${engineKinds.join("|")}       auto = llama where it runs, else text (auto)
  --model ID                     model id; may be given several times (tiny)
  --data-dir DIR                 where the model file is kept (data/backend)
  --token-delay-ms N             delay before each token of an answer (0)
  --prompt-token-delay-ms N      delay for each uncached token of a prompt (0)
  --slots N                      requests at the same time (what the engine can do)
  --help
The variable T4T_BACKEND_API_KEY, when set, is the bearer token that clients must send.`;

/** The command line cannot be used. The message names every fault, one a line. */
export class MainOptionsError extends Error {
  override readonly name = "MainOptionsError";
}

/** Reads the command line; undefined when it asks for help. Throws `MainOptionsError`. */
export function readMainOptions(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): MainOptions | undefined {
  const values = parse(args);
  if (values.help === true) return undefined;
  const faults: string[] = [];
  const number = (name: NumberOption, fallback: number, min: number, max: number): number => {
    const text = values[name];
    if (text === undefined) return fallback;
    const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
    const whole = name === "port" || name === "slots";
    if (value >= min && value <= max && (!whole || Number.isInteger(value))) return value;
    faults.push(`--${name} must be a ${whole ? "whole " : ""}number from ${min} to ${max}`);
    return fallback;
  };
  const engine = engineKinds.find((kind) => kind === (values.engine ?? "auto"));
  if (engine === undefined) faults.push(`--engine must be one of ${engineKinds.join(", ")}`);
  const models = values.model ?? ["tiny"];
  if (models.includes("")) faults.push("--model must not be empty");
  const options = {
    host: values.host ?? "127.0.0.1",
    port: number("port", 8080, 0, 65_535),
    engine: engine ?? "auto",
    models: [...new Set(models)],
    dataDir: values["data-dir"] ?? "data/backend",
    tokenDelayMs: number("token-delay-ms", 0, 0, 60_000),
    promptTokenDelayMs: number("prompt-token-delay-ms", 0, 0, 60_000),
    slots: values.slots === undefined ? undefined : number("slots", 1, 1, 4096),
    apiKey: environment.T4T_BACKEND_API_KEY === "" ? undefined : environment.T4T_BACKEND_API_KEY,
  };
  if (faults.length > 0) throw new MainOptionsError(faults.join("\n"));
  return options;
}

type NumberOption = "port" | "token-delay-ms" | "prompt-token-delay-ms" | "slots";

const specification = {
  host: { type: "string" },
  port: { type: "string" },
  engine: { type: "string" },
  model: { type: "string", multiple: true },
  "data-dir": { type: "string" },
  "token-delay-ms": { type: "string" },
  "prompt-token-delay-ms": { type: "string" },
  slots: { type: "string" },
  help: { type: "boolean" },
} as const;

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: specification, allowPositionals: false }).values;
  } catch (error) {
    throw new MainOptionsError(error instanceof Error ? error.message : String(error));
  }
}
