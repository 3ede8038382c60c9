package import Records
package import RelayCore

/// The writer's cache of live zones, by ID and by number.
///
/// Checks the last used zone first, since writes to one zone come together.
package struct ZoneCache {
    private var zones: [Zone] = []
    private var positions: [Int64: Int] = [:]
    private var numbers: [ZoneID: Int64] = [:]
    /// The index of the last zone that was looked up with `select` or added.
    private var latest = 0

    package init() {}

    package var count: Int { zones.count }

    package subscript(id: ZoneID) -> Zone? {
        if latest < zones.count, zones[latest].id == id { return zones[latest] }
        return numbers[id].flatMap { self[$0] }
    }

    package subscript(number: Int64) -> Zone? { position(of: number).map { zones[$0] } }

    /// Returns how much of the zone with this number is shared; `.nothing` if the zone is not cached.
    package func sharing(of number: Int64) -> Zone.Sharing {
        position(of: number).map { zones[$0].sharing } ?? .nothing
    }

    private func position(of number: Int64) -> Int? {
        if latest < zones.count, zones[latest].number == number { return latest }
        return positions[number]
    }

    /// Does the same as the subscript, and makes the zone the one that is checked first.
    package mutating func select(to id: ZoneID) -> Zone? {
        if latest < zones.count, zones[latest].id == id { return zones[latest] }
        guard let number = numbers[id], let position = positions[number] else { return nil }
        latest = position
        return zones[position]
    }

    /// Adds a zone, or replaces its cached state.
    package mutating func keep(_ zone: Zone) {
        if let position = position(of: zone.number) {
            latest = position
            zones[position] = zone
        } else {
            latest = zones.count
            positions[zone.number] = zones.count
            numbers[zone.id] = zone.number
            zones.append(zone)
        }
    }

    package mutating func forget(_ zone: Zone) {
        numbers[zone.id] = nil
        guard let position = positions.removeValue(forKey: zone.number), let last = zones.popLast(),
            position < zones.count
        else {
            return
        }
        // The last zone moves to the free index.
        zones[position] = last
        positions[last.number] = position
    }
}
