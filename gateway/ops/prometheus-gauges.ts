import { Gauge, type Registry } from "prom-client";
import type { GaugeDefinition } from "../routing/statistics/metrics.ts";

/** Registers gauges that are read anew at every scrape; a series that is not read any more is gone. */
export function registerGauges(registry: Registry, definitions: Iterable<GaugeDefinition>): void {
  for (const definition of definitions) {
    const gauge: Gauge = new Gauge({
      name: definition.name,
      help: definition.help,
      labelNames: [...definition.labelNames],
      registers: [registry],
      collect: () => {
        gauge.reset();
        for (const { labels, value } of definition.samples()) gauge.set(labels, value);
      },
    });
  }
}
