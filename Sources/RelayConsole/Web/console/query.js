// The query builder: record type, filters, sort order and columns, as values and as a form.

import { button, fill, h, select } from "./dom.js";
import { hint, typed, typedSeveral, wireType } from "./fieldtext.js";

export { typed, wireType };

/** The comparators for each kind of field, with CloudKit's names and meanings. */
const COMPARATORS = {
  equality: ["EQUALS", "NOT_EQUALS", "IN", "NOT_IN"],
  range: ["LESS_THAN", "LESS_THAN_OR_EQUALS", "GREATER_THAN", "GREATER_THAN_OR_EQUALS"],
  text: ["BEGINS_WITH", "NOT_BEGINS_WITH"],
  words: ["CONTAINS_ALL_TOKENS", "CONTAINS_ANY_TOKENS"],
  list: ["LIST_CONTAINS", "NOT_LIST_CONTAINS", "LIST_CONTAINS_ANY", "LIST_CONTAINS_ALL"],
};

/** The system fields: name in a query, title, and type. */
export const SYSTEM = [
  ["___recordID", "recordName", "REFERENCE"], ["___createTime", "created", "TIMESTAMP"], ["___modTime", "modified", "TIMESTAMP"],
  ["___createdBy", "created by", "REFERENCE"], ["___modifiedBy", "modified by", "REFERENCE"],
];

/**
 * Returns the comparators that a field's type and indexes allow.
 * @param {{ type: string, indexes: string[] } | undefined} field
 */
export function comparators(field) {
  if (!field) return COMPARATORS.equality;
  if (field.type.startsWith("LIST<")) return COMPARATORS.list;
  const can = (index) => field.indexes.includes(index);
  return [
    ...(can("QUERYABLE") ? COMPARATORS.equality : []),
    ...(can("QUERYABLE") || can("SORTABLE") ? (field.type === "LOCATION" ? [] : COMPARATORS.range) : []),
    ...(field.type === "STRING" && can("QUERYABLE") ? COMPARATORS.text : []),
    ...(field.type === "STRING" && can("SEARCHABLE") ? COMPARATORS.words : []),
  ];
}

/** Returns a field's schema, for the type's own fields and for system fields. */
export function fieldNamed(type, name) {
  return type?.fields.find((field) => field.name === name);
}

/**
 * Returns the request body of `records/query`.
 * @param {any} type
 * @param {QueryParts} parts
 */
export function queryBody(type, parts, continuationMarker) {
  const filterBy = parts.filters.filter(({ field }) => field).map(({ field, comparator, text }) => {
    const known = fieldNamed(type, field);
    const form = (known?.type ?? "STRING").replace(/^LIST<(.*)>$/, "$1");
    const fieldValue = /TOKENS/.test(comparator) ? { value: text, type: "STRING" }
      : takesSeveral(comparator) ? typedSeveral(form, text) : typed(form, text);
    return { fieldName: field, comparator, fieldValue };
  });
  const sortBy = parts.sort ? [{ fieldName: parts.sort, ascending: parts.ascending }] : [];
  return {
    query: { recordType: parts.type, ...(filterBy.length && { filterBy }), ...(sortBy.length && { sortBy }) },
    resultsLimit: 50, ...(continuationMarker && { continuationMarker }),
  };
}

/**
 * @typedef {{ type: string, filters: { field: string, comparator: string, text: string }[], sort: string,
 *   ascending: boolean, columns: string[] | undefined }} QueryParts
 */

/**
 * Reads the parts from an address.
 * @param {URLSearchParams} parameters
 * @returns {QueryParts}
 */
export function partsOf(parameters) {
  const filters = parameters.getAll("filter").map((text) => {
    const [field, comparator, ...rest] = text.split(" ");
    return { field, comparator, text: rest.join(" ") };
  });
  const sort = parameters.get("sort") ?? "";
  return {
    type: parameters.get("type") ?? "", filters, sort: sort.replace(/^-/, ""), ascending: !sort.startsWith("-"),
    columns: parameters.get("columns")?.split(","),
  };
}

/**
 * Writes the parts as the parameters of an address.
 * @param {QueryParts} parts
 */
export function addressOf(parts) {
  const query = new URLSearchParams({ type: parts.type });
  for (const { field, comparator, text } of parts.filters) if (field) query.append("filter", `${field} ${comparator} ${text}`);
  if (parts.sort) query.set("sort", (parts.ascending ? "" : "-") + parts.sort);
  if (parts.columns) query.set("columns", parts.columns.join(","));
  return query.toString();
}

/**
 * Creates the form. Changes `parts` in place and calls `run` when the user submits the form.
 * @param {any[]} types
 * @param {QueryParts} parts
 * @param {() => void} run
 */
export function builder(types, parts, run) {
  const box = h("form.panel", { role: "search", onsubmit: (event) => { event.preventDefault(); run(); } });
  const draw = () => {
    const type = types.find(({ name }) => name === parts.type);
    const named = (field) => (field.isSystem ? `${SYSTEM.find(([name]) => name === field.name)?.[1] ?? field.name} (system)` : field.name);
    const fields = (type?.fields ?? []).filter((field) => field.indexes.length);
    const choices = fields.map((field) => [field.name, named(field)]);
    const sortable = fields.filter((field) => field.indexes.includes("SORTABLE") && field.type !== "LOCATION");
    fill(box,
      h("div.row", null,
        labelled("Record type", select(types.map(({ name }) => name), parts.type, {
          id: "record-type", onchange: (event) => {
            Object.assign(parts, { type: event.target.value, filters: [], sort: "", columns: undefined });
            run();
          },
        })),
        labelled("Sort by", select([["", "record name"], ...sortable.map((field) => [field.name, named(field)])], parts.sort, {
          onchange: (event) => { parts.sort = event.target.value; },
        })),
        labelled("Order", select([["1", "ascending"], ["", "descending"]], parts.ascending ? "1" : "", {
          onchange: (event) => { parts.ascending = event.target.value === "1"; },
        })),
        button("Add filter", () => {
          const first = fields[0];
          if (first) parts.filters.push({ field: first.name, comparator: comparators(first)[0] ?? "EQUALS", text: "" });
          draw();
        }),
        h("button.strong", { type: "submit" }, "Query")),
      parts.filters.map((filter, index) => h("div.row.filter", null,
        labelled("Field", select(choices, filter.field, { onchange: (event) => {
          filter.field = event.target.value;
          filter.comparator = comparators(fieldNamed(type, filter.field))[0] ?? "EQUALS";
          draw();
        } })),
        labelled("Comparator", select(comparators(fieldNamed(type, filter.field)), filter.comparator, {
          onchange: (event) => { filter.comparator = event.target.value; },
        })),
        h("div.grow", null, labelled("Value", h("input", {
          type: "text", value: filter.text, placeholder: hintFor(fieldNamed(type, filter.field), filter.comparator),
          oninput: (event) => { filter.text = event.target.value; },
        }))),
        button("×", () => { parts.filters.splice(index, 1); draw(); }, { "aria-label": "Remove this filter" }))));
  };
  draw();
  return box;
}

const labelled = (name, input) => h("label.field", null, h("span", null, name), input);

const takesSeveral = (comparator) => /^(NOT_)?IN$|LIST_CONTAINS_A/.test(comparator);

function hintFor(field, comparator) {
  if (takesSeveral(comparator)) return "values, separated by commas";
  const type = field?.type ?? "STRING";
  return hint(type.replace(/^LIST<(.*)>$/, "$1"));
}
