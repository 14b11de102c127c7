import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { expect } from "chai";
import { BackendConnection } from "../../../provider/upstream/connection.ts";

const answer = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok";

describe("a connection to a backend", () => {
  let server: Server;
  let sockets: Socket[];
  /** Requests by connection, in order. */
  let seen: string[];
  let connection: BackendConnection;
  /** What to do with a request: `nth` on its connection, from 1. */
  let behave: (socket: Socket, nth: number) => void;

  beforeEach(async () => {
    sockets = [];
    seen = [];
    server = createServer((socket) => {
      const index = sockets.push(socket) - 1;
      let nth = 0;
      socket.on("error", () => undefined);
      socket.on("data", (data) => {
        if (!data.toString("latin1").startsWith("POST")) return;
        nth += 1;
        seen.push(`connection ${index + 1}, request ${nth}`);
        behave(socket, nth);
      });
    });
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    const { port } = server.address() as AddressInfo;
    connection = new BackendConnection({
      name: "backend",
      url: `http://127.0.0.1:${port}/v1`,
      apiKey: undefined,
      maxConcurrent: 0,
      clusterId: undefined,
      initialInputTps: undefined,
    });
  });

  afterEach(async () => {
    await connection.destroy();
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => {
      server.close(resolve);
    });
  });

  async function call(signal = new AbortController().signal): Promise<string> {
    const { body } = await connection.call({
      method: "POST",
      path: "/v1/chat/completions",
      body: Buffer.from("{}"),
      signal,
      headersTimeoutMs: 0,
      bodyTimeoutMs: 0,
    });
    const text = await body.text();
    // The client takes its connection back in a turn of its own.
    await setImmediate();
    return text;
  }

  it("sends once more, on a new connection, what met a kept one in the moment of its closing", async () => {
    behave = (socket, nth) => (nth === 1 ? socket.write(answer) : socket.destroy());
    expect(await call()).to.equal("ok");
    expect(await call()).to.equal("ok");
    expect(seen).to.deep.equal(["connection 1, request 1", "connection 1, request 2", "connection 2, request 1"]);
  });

  it("does not send a third time: what fails on a new connection is the backend's failure", async () => {
    behave = (socket, nth) => (nth === 1 && sockets.length === 1 ? socket.write(answer) : socket.destroy());
    await call();
    expect(await call().catch((error: unknown) => error)).to.be.instanceOf(Error);
    expect(seen).to.have.length(3);
  });

  it("does not send again what was cut on a new connection, or after the answer began", async () => {
    behave = (socket) => socket.destroy();
    expect(await call().catch((error: unknown) => error)).to.be.instanceOf(Error);
    expect(seen).to.have.length(1);
    behave = (socket, nth) => {
      if (nth === 1) socket.write(answer);
      else socket.end("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf");
    };
    await call();
    expect(await call().catch((error: unknown) => error)).to.be.instanceOf(Error);
    expect(seen).to.have.length(3);
  });
});
