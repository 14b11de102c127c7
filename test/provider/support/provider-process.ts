import { pino } from "pino";
import { readProviderSettings } from "../../../provider/settings/provider-settings.ts";
import { startProvider } from "../../../provider/start.ts";

/**
 * A provider node that ends itself with SIGKILL the first time it passes a named point: `CRASH_AT=<point>[:<part of the key>]`.
 * Prints `ready <url>` when it is up.
 */
const [crashPoint = "", crashKey = ""] = (process.env.CRASH_AT ?? "").split(":", 2);
const { CRASH_AT: _crashAt, ...environment } = process.env;
const settings = await readProviderSettings(environment);
const provider = await startProvider(settings, {
  logger: pino({ level: settings.logLevel }),
  crashPoint: (point, key) => {
    if (point !== crashPoint || !key.includes(crashKey)) return;
    process.stdout.write(`crash ${point} ${key}\n`);
    process.kill(process.pid, "SIGKILL");
  },
});
process.stdout.write(`ready ${provider.url}\n`);
