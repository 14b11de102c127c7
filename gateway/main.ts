import { DeploymentFileError } from "../chain/deployment.ts";
import { SettingsError } from "../protocol/settings.ts";
import { WrongChainError } from "../chain/verify.ts";
import { describeError, openLogger } from "./ops/log.ts";
import { PolicyFileError } from "./routing/policy-file.ts";
import { readGatewaySettings } from "./settings.ts";
import { startGateway } from "./start.ts";

/** `npm run gateway`: a gateway in a process of its own, until SIGTERM or SIGINT. */
async function main(): Promise<void> {
  const settings = await readGatewaySettings(process.env);
  const logger = openLogger(settings.logLevel);
  const gateway = await startGateway(settings, { logger, onFatal: () => process.exit(1) });
  process.on("SIGHUP", () => gateway.reload());
  let isStopping = false;
  const stop = (): void => {
    // The journal holds all that matters: an impatient second signal may cut the drain short.
    if (isStopping) process.exit(130);
    isStopping = true;
    gateway.close().then(
      () => process.exit(0),
      (error: unknown) => {
        logger.error({ error: describeError(error) }, "the drain failed");
        process.exit(1);
      },
    );
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  const { url, metricsUrl, wallet } = gateway;
  process.stdout.write(
    `${JSON.stringify({ event: "ready", url, metricsUrl, wallet, notReady: gateway.notReady() })}\n`,
  );
}

main().catch((error: unknown) => {
  const isPlain =
    error instanceof SettingsError ||
    error instanceof PolicyFileError ||
    error instanceof WrongChainError ||
    error instanceof DeploymentFileError;
  process.stderr.write(`${isPlain ? error.message : describeError(error)}\n`);
  process.exit(1);
});
