// The Telemetry page: charts of the last hour or day, and a table by operation.

import { get } from "./api.js";
import { chart } from "./charts.js";
import { copyable, fill, h, loading, table } from "./dom.js";
import { bytes, number, span, took } from "./format.js";

/** The charts as Prometheus queries. Prometheus keeps data for longer than the relay. */
const QUERIES = [
  ["Requests per second, by operation", "sum by (operation) (rate(zonecast_requests_total[5m]))"],
  ["Refused requests per second, by code", "sum by (code) (rate(zonecast_request_errors_total[5m]))"],
  ["Request time, p99", "histogram_quantile(0.99, sum by (le) (rate(zonecast_request_seconds_bucket[5m])))"],
  ["Commits per second", "sum(rate(zonecast_commit_seconds_count[5m]))"],
  ["Notices per second", "sum(rate(zonecast_notices_sent_total[5m]))"],
  ["Notice delay, p99", "histogram_quantile(0.99, sum by (le) (rate(zonecast_notice_seconds_bucket[5m])))"],
  ["Connected devices", "sum(zonecast_notice_connections)"],
  ["Bytes sent per second", "sum(rate(zonecast_response_bytes_total[5m]))"],
  ["Bytes on disk", "sum(zonecast_store_bytes)"],
];

const queries = () => h("details", { id: "queries" }, h("summary", null, "The same charts as PromQL queries, for Prometheus and Grafana"),
  QUERIES.map(([name, text]) => [h("h3", null, name), copyable(text)]));

/** @type {import("./sections.js").Page} */
export const telemetry = {
  id: "telemetry", title: "Telemetry", key: "m",
  about: "All containers of the relay together. For more than a day, let Prometheus scrape GET /metrics.",

  async show(body, { shell, parameters, signal }) {
    const period = parameters.get("period") === "day" ? "day" : "hour";
    const rate = (count) => (point) => count(point) / Math.max(1, point.seconds);
    const shownRate = (value) => (value >= 10 || value === 0 ? number(Math.round(value)) : value.toFixed(1));
    const milliseconds = (value) => (value === 0 ? "0" : took(value));
    const now = h("div", null, loading());
    fill(body, now, queries());
    const draw = async () => {
      const { points, operations, sum, before } = await get("telemetry", { period });
      fill(now,
        h("div.bar", { role: "group", "aria-label": "Period" },
          [["hour", "Last hour"], ["day", "Last day"]].map(([key, name]) => h("a", {
            href: shell.link("telemetry", { period: key }), "aria-current": key === period ? "true" : undefined,
          }, name)),
          h("span.quiet", null, `${number(sum.requests)} requests, ${number(sum.errors)} refused, ${number(sum.notices)} notices, ${bytes(sum.sentBytes)} sent`)),
        before && h("p.quiet", null, `Previous hour (${span(before.seconds)} recorded): ${number(before.requests)} requests, ${number(before.errors)} refused, `,
          `p50 ${took(before.median)}, p99 ${took(before.slowest)}, ${number(before.notices)} notices.`),
        points.length < 2 && h("p.quiet", null, "The relay records a point every ten seconds (every five minutes for the day). A chart needs at least two points."),
        h("div.two", null,
          chart("Requests per second", points, [["requests", rate((point) => point.requests)], ["refused", rate((point) => point.errors)]], shownRate),
          chart("Request time", points, [["p50", (point) => point.median], ["p99", (point) => point.slowest]], milliseconds),
          chart("Commits per second", points, [["commits", rate((point) => point.commits)], ["writes", rate((point) => point.writes)]], shownRate),
          chart("Notices per second", points, [["notices", rate((point) => point.notices)]], shownRate),
          chart("Notice delay, from commit to socket", points, [["p50", (point) => point.noticeMedian], ["p99", (point) => point.noticeSlowest]], milliseconds),
          chart("Connected devices", points, [["devices", (point) => point.connections]], shownRate),
          chart("Bytes sent per second", points, [["bytes", rate((point) => point.sentBytes)]], (value) => (value > 0 && value < 10 ? `${value.toFixed(1)} B` : bytes(value))),
          chart("Disk use", points, [["SQLite files", (point) => point.storeBytes]], (value) => (value > 0 ? bytes(value) : "0"))),
        h("h2", null, "By operation"),
        table([
          ["Operation", (row) => row.name, "mono"], ["Requests", (row) => number(row.requests), "number"],
          ["p50", (row) => took(row.median), "number"], ["p99", (row) => took(row.slowest), "number"],
          ["Sent", (row) => bytes(row.sentBytes), "number"],
          ["Refused", (row) => Object.entries(row.errors).map(([code, count]) => `${code} ${number(count)}`).join(", "), "wrap"],
        ], operations, "No requests in this period.", { caption: "By operation" }));
    };
    await draw();
    shell.every(10_000, signal, draw);
  },
};
