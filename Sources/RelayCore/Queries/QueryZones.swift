package import Records

/// Which zone a query's references lead into.
///
/// References do not leave their zone, so one to a record of another zone than the one asked is equal to nothing there.
/// See Wire.md, "References".
extension Query {
    /// With the owners of the zones that its references name filled in, as this caller means them.
    func meant(in database: DatabaseAddress) -> Query {
        mappingReferences { reference in
            guard let named = reference.zone else { return reference }
            var reference = reference
            // One that cannot be had here is no zone that is asked.
            reference.zone = (try? database.zone(named)) ?? named
            return reference
        }
    }

    /// As one zone is to be asked: by names alone.
    package func asked(of zone: ZoneID) -> Query {
        guard namesZones else { return self }
        var query = mappingReferences { reference in
            // No record has an empty name.
            Reference(recordName: reference.zone ?? zone == zone ? reference.recordName : "", action: reference.action)
        }
        for index in query.filters.indices where query.filters[index].field == .system(.recordName) {
            query.filters[index].values = query.filters[index].values.map { value in
                if case .reference(let reference) = value { .string(reference.recordName) } else { value }
            }
        }
        return query
    }

    /// Whether some of its references hold in one zone alone.
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
