import Records
import RelayCore
import Testing

@Suite struct DistanceTests {
    private func place(_ chance: inout SystemRandomNumberGenerator) -> Location {
        // Often at edges, poles and the date line.
        let latitude =
            Bool.random(using: &chance) ? Double.random(in: -90...90, using: &chance) : [-90, 0, 90].randomElement()
        let longitude =
            Bool.random(using: &chance)
            ? Double.random(in: -180...180, using: &chance) : [-180, 0, 180].randomElement()
        return Location(latitude: latitude ?? 0, longitude: longitude ?? 0)
    }

    @Test func aDistanceIsWithinTheBoundsOfEachEnclosingSquare() {
        var chance = SystemRandomNumberGenerator()
        for _ in 0..<2_000 {
            let (center, inside) = (place(&chance), place(&chance))
            let distance = Distance.between(center, inside)
            var square = GeoSquare.globe
            while true {
                #expect(square.cells.contains(inside.cell))
                let (least, most) = (Distance.least(from: center, to: square), Distance.most(from: center, to: square))
                #expect(least <= distance + Distance.slack, "\(center) \(inside) \(square)")
                #expect(most >= distance - Distance.slack, "\(center) \(inside) \(square)")
                guard let next = square.quarters.first(where: { $0.cells.contains(inside.cell) }) else { break }
                square = next
            }
            // The last square is only a cell, so the bounds are nearly equal.
            #expect(square.quarters.isEmpty)
            #expect(Distance.most(from: center, to: square) - Distance.least(from: center, to: square) <= 25)
        }
    }

    @Test func quartersCoverTheirSquare() {
        let globe = GeoSquare.globe
        #expect(globe.edges == (-90, 90, -180, 180))
        #expect(globe.quarters.map(\.cells.count).reduce(0, +) == globe.cells.count)
        #expect(Set(globe.quarters.flatMap(\.quarters).map(\.cells)).count == 16)
    }

    @Test func theAntipodeHasTheMaximumDistance() {
        for place in [Location(latitude: 0, longitude: 0), Location(latitude: 51.5, longitude: -0.1)] {
            #expect(abs(Distance.between(place, Distance.opposite(place)) - Distance.longest) < 1)
        }
    }
}
