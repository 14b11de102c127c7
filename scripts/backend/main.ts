import { EngineUnavailableError } from "./engine.ts";
import { loadEngine } from "./load-engine.ts";
import { MainOptionsError, readMainOptions, usage } from "./main-options.ts";
import { startBackend } from "./server.ts";
import { systemClock } from "./system-clock.ts";

/** Standard output has one line of JSON when the server is ready; everything else goes to standard error. */
async function main(): Promise<void> {
  const options = readMainOptions(process.argv.slice(2), process.env);
  if (options === undefined) {
    process.stdout.write(`${usage}\n`);
    return;
  }
  const engine = await loadEngine({ kind: options.engine, dataDir: options.dataDir, log });
  const backend = await startBackend({
    host: options.host,
    port: options.port,
    engine,
    modelIds: options.models,
    clock: systemClock,
    random: Math.random,
    tokenDelayMs: options.tokenDelayMs,
    promptTokenDelayMs: options.promptTokenDelayMs,
    ...(options.slots !== undefined && { slots: options.slots }),
    ...(options.apiKey !== undefined && { apiKey: options.apiKey }),
  });
  process.stdout.write(
    `${JSON.stringify({ event: "ready", url: backend.url, engine: engine.name, models: options.models })}\n`,
  );
  const stop = (): void => {
    backend
      .close()
      .then(() => engine.close())
      .catch(fail);
  };
  process.once("SIGTERM", stop);
  process.once("SIGINT", stop);
}

function log(line: string): void {
  process.stderr.write(`${line}\n`);
}

function fail(error: unknown): void {
  if (error instanceof MainOptionsError) log(error.message);
  else if (error instanceof EngineUnavailableError) log(error.message);
  else if (hasCode(error, "EADDRINUSE")) log("the port is taken: choose another with --port, or 0 for any free one");
  else log(error instanceof Error ? (error.stack ?? error.message) : String(error));
  process.exitCode = error instanceof MainOptionsError ? 2 : 1;
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}

main().catch(fail);
