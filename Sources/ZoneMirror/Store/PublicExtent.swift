public import Foundation
import Records
import ZoneKit

/// The part of one entity that a mirror of a public database holds, since a public database may be large.
///
///     cloud.extents["Message"] = PublicExtent(NSPredicate(format: "board == %@", "news"), properties: ["text", "board"])
///
/// An object that stops matching stays until `reconcile` removes it. Properties that are left out have their defaults and
/// are never sent. See PublicData.md, "Less than all".
public struct PublicExtent: Sendable {
    /// Why the condition cannot be sent, if so.
    let problem: String?
    private let filters: [Query.Filter]
    private let isEmpty: Bool
    let properties: [String]?

    /// Creates an extent.
    ///
    /// - Parameters:
    ///   - predicate: A condition on the objects: comparisons of properties joined by `AND`, as queries allow them.
    ///     The default is all objects. The relay needs an index for each property in it.
    ///   - properties: The properties to mirror. The default is all.
    public init(_ predicate: NSPredicate = NSPredicate(value: true), properties: [String]? = nil) {
        self.properties = properties
        var (filters, isEmpty, problem): ([Query.Filter], Bool, String?) = ([], false, nil)
        do throws(CKError) {
            let query = try CKQuery(recordType: "", predicate: predicate).query()
            filters = query?.filters ?? []
            isEmpty = query == nil
        } catch {
            problem = error.localizedDescription
        }
        (self.filters, self.isEmpty, self.problem) = (filters, isEmpty, problem)
    }

    /// Returns the extent for the wire.
    func wire(_ mapping: RecordMapping, _ entity: Entity) -> WireExtent {
        var extent = WireExtent(isEmpty: isEmpty)
        let known = Set(entity.attributes.map(\.name) + entity.relationships.map(\.name))
        extent.filters = filters.map { filter in
            var filter = filter
            if case .own(let name) = filter.field, known.contains(name) { filter.field = .own(mapping.prefix + name) }
            return filter
        }
        guard let properties else { return extent }
        let columns = mapping.tables[entity.name]?.columns.filter { properties.contains($0.name) } ?? []
        extent.fields =
            columns.flatMap { column in
                column.attribute?.type.hasLargeForm == true
                    ? [mapping.field(column), mapping.assetField(column)] : [mapping.field(column)]
            } + [mapping.prefix + "entityName"]
        if mapping.tables[entity.name]?.timed.isEmpty == false { extent.fields?.append(mapping.editTimesField) }
        return extent
    }
}

/// An extent in terms of record fields.
struct WireExtent: Hashable, Sendable {
    var filters: [Query.Filter] = []
    /// The fields to fetch; `nil` means all.
    var fields: [String]?
    /// Whether no record can match.
    var isEmpty = false
}

extension StoreFile {
    /// The extents by record type, for types that are mirrored in part only.
    var extents: [String: WireExtent] {
        var found: [String: WireExtent] = [:]
        for (name, extent) in description.cloud?.extents ?? [:] {
            guard let table = mapping.tables[name], let entity = table.entity else { continue }
            found[mapping.recordType(of: table)] = extent.wire(mapping, entity)
        }
        return found
    }
}
