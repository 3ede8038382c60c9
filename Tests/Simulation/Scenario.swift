import ZoneTesting

/// What kind of run a seed stands for: everything about it but the single steps.
package struct Scenario: Sendable, CustomStringConvertible {
    package var seed: UInt64
    var kind: Kind
    /// The relay keeps its records in files, and is restarted and killed.
    var isOnDisk: Bool
    /// carol's devices, with mirrors, take part.
    var hasMirrors: Bool
    /// Some of them of everybody's database, which is polled.
    var hasPublicMirrors: Bool
    /// The disk beneath the relay fails, is full, and loses its power.
    var hasFaultyDisk: Bool
    /// The relay is put back to what it was, from a backup, with all its devices ahead of it.
    var goesBack: Bool
    /// Pages of the relay's log that are copied into its file at once.
    var checkpointPages: Int
    /// Records in one answer or request.
    var itemsPerRequest: Int
    var weather: Weather
    var stepCount: Int

    package enum Kind: Sendable {
        /// Engines and a plain client, mirrors now and then.
        case everything
        /// Mirrors of one user, whose objects are linked in every way.
        case mirrors
    }

    package init(seed: UInt64, _ kind: Kind = .everything) {
        self.seed = seed
        self.kind = kind
        // Not a multiple of the seed: the source steps by one, and neighbours would be nearly the same run.
        var random = SeededRandom(seed: seed ^ 0x5CE2_A210_0000_0000).generator
        func chance(_ share: Double) -> Bool { Double.random(in: 0..<1, using: &random) < share }
        isOnDisk = chance(0.45)
        hasMirrors = chance(0.25) && kind == .everything
        hasPublicMirrors = chance(0.4)
        hasFaultyDisk = chance(0.7)
        checkpointPages = [8, 40, 200, 8_000].randomElement(using: &random) ?? 8_000
        itemsPerRequest = [2, 3, 3, 5, 10, 200].randomElement(using: &random) ?? 200
        stepCount = Int.random(in: 14...46, using: &random)
        var weather = Weather()
        weather.delays = 1...(chance(0.5) ? 80 : 900)
        if chance(0.8) {
            weather.losesRequest = chance(0.5) ? 0.08 : 0
            weather.losesAnswer = chance(0.6) ? 0.1 : 0
            weather.doubles = chance(0.4) ? 0.08 : 0
            weather.throttles = chance(0.3) ? 0.05 : 0
            weather.isBusy = chance(0.3) ? 0.05 : 0
            weather.dropsNotice = chance(0.4) ? 0.3 : 0
            weather.doublesNotice = chance(0.4) ? 0.2 : 0
            weather.reordersNotice = chance(0.4) ? 0.3 : 0
        }
        self.weather = weather
        // Drawn apart, so that all else of a seed is what it is.
        var other = SeededRandom(seed: seed ^ 0xBAC_0B1D).generator
        goesBack = isOnDisk && Int.random(in: 0..<3, using: &other) == 0
        if goesBack {
            // A disk that fails knows nothing of files that are put in the place of others; and nobody tells a mirror of
            // everybody's database what is gone from it.
            (hasFaultyDisk, hasPublicMirrors) = (false, false)
        }
    }

    /// Engines, the plain client, mirrors.
    var programCount: Int { kind == .mirrors ? 3 : hasMirrors ? hasPublicMirrors ? 9 : 7 : 4 }

    private var cast: String { kind == .mirrors ? "linked mirrors" : hasMirrors ? "engines and mirrors" : "engines" }

    package var description: String {
        """
        seed \(seed): \(isOnDisk ? "files, log of \(checkpointPages) pages" : "memory"), \(cast), \
        \(itemsPerRequest) items a request, \(stepCount) steps
        weather: request lost \(weather.losesRequest), answer lost \(weather.losesAnswer), doubled \(weather.doubles), \
        throttled \(weather.throttles), busy \(weather.isBusy), notice dropped \(weather.dropsNotice), doubled \
        \(weather.doublesNotice), reordered \(weather.reordersNotice), delay \(weather.delays) ms
        """
    }
}
