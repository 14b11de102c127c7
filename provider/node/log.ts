import type { Logger } from "pino";
import type { ProviderMetrics } from "../metrics.ts";

/** Fields of a log line; never a key, never a body. */
type Fields = Readonly<Record<string, unknown>>;

/** The node's log: lines, and faults that are counted too. */
export interface NodeLog {
  info(message: string, fields: Fields): void;
  warn(message: string, fields: Fields): void;
  /** Something is wrong that the node cannot cure. */
  error(message: string, fields: Fields): void;
  /** Something failed and will be tried again; `where` is a bounded word. */
  fault(where: string, error: unknown): void;
}

/** A node's log on a pino logger. */
export function nodeLog(logger: Logger, metrics: ProviderMetrics): NodeLog {
  return {
    info: (message, fields) => logger.info(fields, message),
    warn: (message, fields) => logger.warn(fields, message),
    error: (message, fields) => logger.error(fields, message),
    fault: (where, error) => {
      metrics.fault(where);
      logger.error({ where, error: describe(error) }, "a fault that is tried again");
    },
  };
}

/** Message and causes of an error, without stacks and without the request dumps that chain libraries append. */
export function describe(error: unknown): string {
  const words: string[] = [];
  let link: unknown = error;
  for (let depth = 0; depth < 5 && link instanceof Error; depth += 1) {
    const message = "shortMessage" in link && typeof link.shortMessage === "string" ? link.shortMessage : link.message;
    if (!words.includes(message)) words.push(message);
    link = link.cause;
  }
  return words.length === 0 ? String(error) : words.join(": ");
}
