import { pino } from "pino";
import { DeploymentFileError } from "../chain/deployment.ts";
import { SettingsError } from "../protocol/settings.ts";
import { describe } from "./node/log.ts";
import { EndpointsFileError } from "./settings/endpoints-file.ts";
import { readProviderSettings } from "./settings/provider-settings.ts";
import { startProvider } from "./start.ts";

/** `npm run provider`: a provider node in a process of its own, until SIGTERM or SIGINT. SIGHUP reads the endpoints file again. */
async function main(): Promise<void> {
  const settings = await readProviderSettings(process.env);
  const logger = pino({ level: settings.logLevel }, pino.destination({ fd: 2, sync: true }));
  const provider = await startProvider(settings, { logger });
  process.on("SIGHUP", () => void provider.reload());
  let isStopping = false;
  const stop = (): void => {
    // The journal holds all that matters: an impatient second signal may cut the drain short.
    if (isStopping) process.exit(130);
    isStopping = true;
    provider.close().then(
      () => process.exit(0),
      (error: unknown) => {
        logger.error({ error: describe(error) }, "the drain failed");
        process.exit(1);
      },
    );
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  const { address, url, endpoint } = provider;
  process.stdout.write(
    `${JSON.stringify({ event: "ready", address, url, endpoint, notReady: provider.notReady() })}\n`,
  );
}

main().catch((error: unknown) => {
  const isPlain =
    error instanceof SettingsError || error instanceof EndpointsFileError || error instanceof DeploymentFileError;
  process.stderr.write(`${isPlain ? error.message : describe(error)}\n`);
  process.exit(1);
});
