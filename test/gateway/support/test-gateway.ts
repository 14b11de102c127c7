import type { Logger } from "pino";
import type { Clock } from "../../../protocol/clock.ts";
import { type RunningGateway, startGateway } from "../../../gateway/start.ts";
import type { GatewaySettings } from "../../../gateway/settings.ts";
import { FakeChain } from "./fake-chain.ts";
import { MemoryJournal } from "./memory-journal.ts";
import {
  type ProviderScript,
  type ScriptedProvider,
  startScriptedProvider,
  type ScriptedProviderOptions,
} from "./scripted-provider.ts";
import { testSettings } from "./test-settings.ts";

/** A gateway on a fake chain, with scripted providers. */
export interface TestGateway {
  readonly url: string;
  readonly gateway: RunningGateway;
  readonly chain: FakeChain;
  readonly journal: MemoryJournal;
  readonly providers: readonly ScriptedProvider[];
  close(): Promise<void>;
}

/** What a test's provider is. */
export type ProviderSketch =
  | ProviderScript
  | (Omit<ScriptedProviderOptions, "chain" | "name"> & { readonly name?: string });

/** Options of `startTestGateway`. */
export interface TestGatewayOptions {
  readonly providers?: readonly ProviderSketch[];
  readonly settings?: Partial<GatewaySettings>;
  readonly chain?: FakeChain;
  readonly journal?: MemoryJournal;
  readonly janitorMs?: number;
  readonly clock?: Clock;
  readonly logger?: Logger;
}

/** Starts the providers, then a gateway that knows them. The first provider is the cheapest. */
export async function startTestGateway(options: TestGatewayOptions = {}): Promise<TestGateway> {
  const chain = options.chain ?? new FakeChain();
  const journal = options.journal ?? new MemoryJournal();
  const providers: ScriptedProvider[] = [];
  for (const [index, sketch] of (options.providers ?? []).entries()) {
    const given = typeof sketch === "function" ? { script: sketch } : sketch;
    providers.push(
      await startScriptedProvider({
        chain,
        name: `provider ${index}`,
        price: BigInt(index + 1) * 1_000_000n,
        ...given,
      }),
    );
  }
  chain.publish();
  const gateway = await startGateway(testSettings(options.settings), {
    journal,
    openChain: async (chainOptions) => await chain.open(chainOptions),
    janitorMs: options.janitorMs ?? 50,
    ...(options.clock === undefined ? {} : { clock: options.clock }),
    ...(options.logger === undefined ? {} : { logger: options.logger }),
  });
  return {
    url: gateway.url,
    gateway,
    chain,
    journal,
    providers,
    close: async () => {
      await gateway.close(0);
      for (const provider of providers) await provider.close();
    },
  };
}

/** Posts JSON to a path of the gateway. */
export async function postJson(
  url: string,
  body: unknown,
  options: { readonly headers?: Readonly<Record<string, string>>; readonly signal?: AbortSignal } = {},
): Promise<Response> {
  return await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...options.headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
}
