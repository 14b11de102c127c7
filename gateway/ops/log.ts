import { type Logger, pino } from "pino";

/** Paths whose values never reach a log, wherever a careless line might put them. */
const secretPaths = ["privateKey", "apiKey", "apiKeys", "authorization", "signature", "cookie"];

/** The logger of a gateway process: JSON lines on standard error. */
export function openLogger(level: string): Logger {
  return pino(
    { level, redact: { paths: secretPaths.flatMap((path) => [path, `*.${path}`]), censor: "[secret]" } },
    pino.destination({ fd: 2, sync: false }),
  );
}

/** Message and causes of an error, without stacks and without the request dumps that chain libraries append. */
export function describeError(error: unknown): string {
  const words: string[] = [];
  let link: unknown = error;
  for (let depth = 0; depth < 5 && link instanceof Error; depth += 1) {
    const message = "shortMessage" in link && typeof link.shortMessage === "string" ? link.shortMessage : link.message;
    if (!words.includes(message)) words.push(message);
    link = link.cause;
  }
  return words.length === 0 ? "unknown error" : words.join(": ");
}
