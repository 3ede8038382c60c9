package import Records

/// Resolution of the zones in a query's references.
///
/// A reference cannot cross zones, so a reference to a record of another zone equals nothing in the queried zone. See
/// Wire.md, "References".
extension Query {
    /// Returns the query with the owners of the zones in its references filled in, from the caller's point of view.
    func meant(in database: DatabaseAddress) -> Query {
        mappingReferences { reference in
            guard let named = reference.zone else { return reference }
            var reference = reference
            // A zone that the caller cannot access is not queried, so it can stay as it is.
            reference.zone = (try? database.zone(named)) ?? named
            return reference
        }
    }

    /// Returns the query for one zone, with references reduced to record names.
    package func asked(of zone: ZoneID) -> Query {
        guard namesZones else { return self }
        var query = mappingReferences { reference in
            // No record has an empty name, so it matches nothing.
            Reference(recordName: reference.zone ?? zone == zone ? reference.recordName : "", action: reference.action)
        }
        for index in query.filters.indices where query.filters[index].field == .system(.recordName) {
            query.filters[index].values = query.filters[index].values.map { value in
                if case .reference(let reference) = value { .string(reference.recordName) } else { value }
            }
        }
        return query
    }

    /// Whether some of the query's references name a zone.
    var namesZones: Bool {
        filters.contains { $0.values.contains { $0.references.contains { $0.zone != nil } } }
    }

    private func mappingReferences(_ change: (Reference) -> Reference) -> Query {
        guard namesZones else { return self }
        var query = self
        for index in query.filters.indices {
            query.filters[index].values = query.filters[index].values.map { $0.mappingReferences(change) }
        }
        return query
    }
}
