import { createServer } from "node:net";

/** A port that cannot be used, with the variable that chose it. */
export class PortTakenError extends Error {
  override readonly name = "PortTakenError";
}

/**
 * The port to use: `port` itself when it is free, or a free one when it is 0. Throws `PortTakenError` naming the variable.
 * Another process can still take it before it is bound; the one that binds then reports that.
 */
export async function usablePort(variable: string, port: number, host = "127.0.0.1"): Promise<number> {
  return await new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => {
      const why =
        error.code === "EADDRINUSE" ? "is taken by another process" : `cannot be used (${error.code ?? error.message})`;
      reject(
        new PortTakenError(
          `${variable}: port ${port} on ${host} ${why}; stop that process, choose another port, or set ${variable}=0 for a free one`,
        ),
      );
    });
    server.listen({ port, host, exclusive: true }, () => {
      const address = server.address();
      const chosen = typeof address === "object" && address !== null ? address.port : port;
      server.close(() => resolve(chosen));
    });
  });
}
