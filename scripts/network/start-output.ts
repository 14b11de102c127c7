import type { DemonstratedJob, DemonstrationOutput, WaitedInLine } from "./demonstration.ts";
import { describeProgress, formatAmount } from "./format.ts";
import type { LocalNetwork } from "./local-network.ts";
import type { TokenUnit } from "./token-unit.ts";

/** Where `npm start` says what happens: text for a person, or one JSON object a line for a program. */
export interface StartOutput extends DemonstrationOutput {
  step(text: string): void;
  ready(network: LocalNetwork): void;
  scene(title: string): void;
  jobDone(job: DemonstratedJob): void;
  waited(result: WaitedInLine): void;
  staysUp(network: LocalNetwork, request: { readonly model: string; readonly needsKey: boolean }): void;
  done(job: DemonstratedJob): void;
  /** Seconds that running answers still have; 0 when none is waited for. */
  stopping(drainSeconds: number): void;
}

/** Text on standard output. */
export function textStartOutput(write: (text: string) => void = (text) => process.stdout.write(text)): StartOutput {
  let midLine = false;
  let unit: TokenUnit = { symbol: "of the token's smallest unit", decimals: 0 };
  const line = (text: string): void => {
    write(`${midLine ? "\n" : ""}${text}\n`);
    midLine = false;
  };
  return {
    step: (text) => line(`- ${text}`),
    ready: (network) => {
      unit = network.tokenUnit;
      line("");
      line(`chain      ${network.rpcUrl} (chain id ${network.chainId})`);
      line(`registry   ${network.deployment.registry}`);
      line(`escrow     ${network.deployment.escrow}`);
      line(`token      ${network.deployment.token} (${unit.symbol}, ${unit.decimals} decimals)`);
      for (const { specification, address, endpoint } of network.providers) {
        const cap =
          specification.maxConcurrentJobs === 0 ? "no cap" : `cap ${specification.maxConcurrentJobs ?? "by default"}`;
        line(
          `provider   ${address} at ${endpoint}, ${cap}, ${specification.offerings.map(({ model }) => model).join(", ")}`,
        );
      }
      for (const { url } of network.gateways) line(`gateway    ${url}`);
      line(`contracts  ${network.deploymentFile} (T4T_DEPLOYMENT_FILE of more nodes)`);
      line(`logs       ${network.logDir}`);
    },
    scene: (title) => {
      line("");
      line(title);
    },
    progress: (client, event) => line(`  ${client === "client" ? "" : `[${client}] `}${describeProgress(event, unit)}`),
    text: (_client, text) => {
      write(midLine ? text : `  > ${text}`);
      midLine = true;
    },
    jobDone: (job) => {
      line("");
      line(`  provider       ${job.provider}`);
      line(`  tokens used    ${job.usage.inputTokens} input, ${job.usage.outputTokens} output`);
      line(`  price paid     ${formatAmount(job.paid, unit)}`);
      line(`  transactions   post     ${job.transactions.post}`);
      line(`                 complete ${job.transactions.complete}`);
    },
    waited: ({ waitedMs }) =>
      line(`  the second client was served after about ${(waitedMs / 1000).toFixed(1)} s in line`),
    staysUp: (network, { model, needsKey }) => {
      const url = network.gateways[0]?.url ?? "";
      const body = JSON.stringify({
        model,
        stream: true,
        messages: [{ role: "user", content: "Hello" }],
        max_tokens: 64,
      });
      line("");
      line("It stays up. Try it:");
      const key = needsKey ? " -H 'authorization: Bearer YOUR-KEY'" : "";
      line(`  curl -N ${url}/v1/chat/completions${key} -H 'content-type: application/json' -d '${body}'`);
      line("Stop it with Ctrl-C.");
    },
    done: () => undefined,
    stopping: (drainSeconds) =>
      line(
        drainSeconds === 0
          ? "stopping"
          : `stopping: running answers have up to ${drainSeconds} s to end; Ctrl-C once more stops at once`,
      ),
  };
}

/** One JSON object a line on standard output; the shapes are fixed because scripts rely on them. */
export function jsonStartOutput(write: (text: string) => void = (text) => process.stdout.write(text)): StartOutput {
  const print = (value: object): void => write(`${JSON.stringify(value)}\n`);
  return {
    step: () => undefined,
    ready: (network) =>
      print({
        event: "ready",
        gateway: network.gateways[0]?.url,
        rpc: network.rpcUrl,
        chainId: network.chainId,
        contracts: {
          registry: network.deployment.registry,
          escrow: network.deployment.escrow,
          token: network.deployment.token,
        },
        providers: network.providers.map(({ specification, address, endpoint }) => ({
          address,
          endpoint,
          models: specification.offerings.map(({ model }) => model),
          maxConcurrentJobs: specification.maxConcurrentJobs,
        })),
      }),
    scene: () => undefined,
    progress: (client, event) => {
      const { type, ...facts } = event;
      print({ event: type, client, ...facts });
    },
    text: () => undefined,
    jobDone: () => undefined,
    waited: () => undefined,
    staysUp: () => undefined,
    done: (job) =>
      print({
        event: "done",
        jobId: job.jobId,
        provider: job.provider,
        usage: job.usage,
        paid: String(job.paid),
        transactions: job.transactions,
      }),
    stopping: () => undefined,
  };
}
