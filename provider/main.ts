import { pino } from "pino";
import { DeploymentFileError } from "../chain/deployment.ts";
import { systemClock } from "../chain/system-clock.ts";
import { ArgumentError, asksForHelp } from "../protocol/arguments.ts";
import { SettingsError, settingsHelp } from "../protocol/settings.ts";
import { onStopSignals } from "../protocol/stop-signals.ts";
import { describe } from "./node/log.ts";
import { EndpointsFileError } from "./settings/endpoints-file.ts";
import { providerSettingsShape, readProviderSettings } from "./settings/provider-settings.ts";
import { startProvider } from "./start.ts";

const help = `npm run provider reads everything from these environment variables (name, default, value); docs/settings.md says what each means.

${settingsHelp(providerSettingsShape)}`;

/** `npm run provider`: a provider node in a process of its own, until SIGTERM or SIGINT. SIGHUP reads the endpoints file again. */
async function main(): Promise<void> {
  if (asksForHelp(process.argv.slice(2))) {
    process.stdout.write(`${help}\n`);
    return;
  }
  const settings = await readProviderSettings(process.env);
  const logger = pino({ level: settings.logLevel }, pino.destination({ fd: 2, sync: true }));
  const provider = await startProvider(settings, { logger, onFatal: () => process.exit(1) });
  process.on("SIGHUP", () => void provider.reload());
  onStopSignals(process, systemClock, {
    stop: () => {
      provider.close().then(
        () => process.exit(0),
        (error: unknown) => {
          logger.error({ error: describe(error) }, "the drain failed");
          process.exit(1);
        },
      );
    },
    // The journal holds all that matters: somebody impatient may cut the drain short.
    stopAtOnce: () => process.exit(130),
  });
  const { address, url, endpoint } = provider;
  process.stdout.write(
    `${JSON.stringify({ event: "ready", address, url, endpoint, notReady: provider.notReady() })}\n`,
  );
}

main().catch((error: unknown) => {
  const isPlain =
    error instanceof ArgumentError ||
    error instanceof SettingsError ||
    error instanceof EndpointsFileError ||
    error instanceof DeploymentFileError;
  process.stderr.write(`${isPlain ? error.message : describe(error)}\n`);
  process.exit(error instanceof ArgumentError ? 2 : 1);
});
