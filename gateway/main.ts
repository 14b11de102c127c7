import { DeploymentFileError } from "../chain/deployment.ts";
import { systemClock } from "../chain/system-clock.ts";
import { ArgumentError, asksForHelp } from "../protocol/arguments.ts";
import { SettingsError, settingsHelp } from "../protocol/settings.ts";
import { onStopSignals } from "../protocol/stop-signals.ts";
import { WrongChainError } from "../chain/verify.ts";
import { describeError, openLogger } from "./ops/log.ts";
import { PolicyFileError } from "./routing/policy-file.ts";
import { gatewaySettingsShape, readGatewaySettings } from "./settings.ts";
import { startGateway } from "./start.ts";

const help = `npm run gateway reads everything from these environment variables (name, default, value); docs/settings.md says what each means.

${settingsHelp(gatewaySettingsShape)}`;

/** `npm run gateway`: a gateway in a process of its own, until SIGTERM or SIGINT. */
async function main(): Promise<void> {
  if (asksForHelp(process.argv.slice(2))) {
    process.stdout.write(`${help}\n`);
    return;
  }
  const settings = await readGatewaySettings(process.env);
  const logger = openLogger(settings.logLevel);
  const gateway = await startGateway(settings, { logger, onFatal: () => process.exit(1) });
  process.on("SIGHUP", () => gateway.reload());
  onStopSignals(process, systemClock, {
    stop: () => {
      gateway.close().then(
        () => process.exit(0),
        (error: unknown) => {
          logger.error({ error: describeError(error) }, "the drain failed");
          process.exit(1);
        },
      );
    },
    // The journal holds all that matters: somebody impatient may cut the drain short.
    stopAtOnce: () => process.exit(130),
  });
  const { url, metricsUrl, wallet } = gateway;
  process.stdout.write(
    `${JSON.stringify({ event: "ready", url, metricsUrl, wallet, notReady: gateway.notReady() })}\n`,
  );
}

main().catch((error: unknown) => {
  const isPlain =
    error instanceof ArgumentError ||
    error instanceof SettingsError ||
    error instanceof PolicyFileError ||
    error instanceof WrongChainError ||
    error instanceof DeploymentFileError;
  process.stderr.write(`${isPlain ? error.message : describeError(error)}\n`);
  process.exit(error instanceof ArgumentError ? 2 : 1);
});
