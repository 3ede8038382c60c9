import Records
import RelayCore

/// The live zones that the writer knows, found by their addresses or, for less, by their numbers; and for nothing where it
/// is the one that was asked for last, since writes to one zone come together.
struct KnownZones {
    private var zones: [Zone] = []
    private var places: [Int64: Int] = [:]
    private var numbers: [ZoneID: Int64] = [:]
    /// The place of the one that was asked for last, or kept.
    private var latest = 0

    var count: Int { zones.count }

    subscript(id: ZoneID) -> Zone? {
        if latest < zones.count, zones[latest].id == id { return zones[latest] }
        return numbers[id].flatMap { self[$0] }
    }

    subscript(number: Int64) -> Zone? { place(of: number).map { zones[$0] } }

    /// What is shared of the zone of this number; nothing where it is not known.
    func sharing(of number: Int64) -> Zone.Sharing { place(of: number).map { zones[$0].sharing } ?? .nothing }

    private func place(of number: Int64) -> Int? {
        if latest < zones.count, zones[latest].number == number { return latest }
        return places[number]
    }

    /// The same as the subscript; what comes next is about this zone.
    mutating func turn(to id: ZoneID) -> Zone? {
        if latest < zones.count, zones[latest].id == id { return zones[latest] }
        guard let number = numbers[id], let place = places[number] else { return nil }
        latest = place
        return zones[place]
    }

    /// Takes a zone in, or what it has become.
    mutating func keep(_ zone: Zone) {
        if let place = place(of: zone.number) {
            latest = place
            zones[place] = zone
        } else {
            latest = zones.count
            places[zone.number] = zones.count
            numbers[zone.id] = zone.number
            zones.append(zone)
        }
    }

    mutating func forget(_ zone: Zone) {
        numbers[zone.id] = nil
        guard let place = places.removeValue(forKey: zone.number), let last = zones.popLast(), place < zones.count
        else {
            return
        }
        // The last one takes its place.
        zones[place] = last
        places[last.number] = place
    }
}
