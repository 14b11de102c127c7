import { createServer } from "node:http";
import { Pool } from "undici";

/**
 * The baseline: the fastest proxy that Node has without doing anything (node:http and undici `Pool.stream`; no parsing, no
 * authentication, no chain). `node plain-proxy.ts UPSTREAM_ORIGIN` prints its port on the first line.
 */
const upstream = process.argv[2];
if (upstream === undefined) throw new Error("usage: plain-proxy.ts UPSTREAM_ORIGIN");

const pool = new Pool(upstream, { connections: 256 });

const server = createServer((request, response) => {
  const headers: Record<string, string> = {};
  for (const name of ["content-type", "content-length", "accept"]) {
    const value = request.headers[name];
    if (typeof value === "string") headers[name] = value;
  }
  pool
    .stream(
      { path: request.url ?? "/", method: request.method === "GET" ? "GET" : "POST", headers, body: request },
      (answer) => {
        const type = answer.headers["content-type"];
        response.writeHead(answer.statusCode, typeof type === "string" ? { "content-type": type } : {});
        return response;
      },
    )
    .catch(() => {
      if (!response.headersSent) response.writeHead(502);
      response.destroy();
    });
});
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  process.stdout.write(`${typeof address === "object" && address !== null ? address.port : 0}\n`);
});
