#if Postgres
    import Foundation
    import Records
    import RelayCore
    import RelaySystem
    import Synchronization
    import Testing

    @testable import PostgresStore

    /// What several relays count together in the database: attempts, values that are valid once, alerts.
    @Suite(needsPostgres)
    struct SharedStateTests {
        /// A clock that both relays read.
        private final class Clock: Sendable {
            private let time = Mutex(Timestamp(milliseconds: 1_800_000_000_000))

            var now: Timestamp { time.withLock { $0 } }
            func advance(_ duration: Duration) { time.withLock { $0 = $0 + duration } }
            var source: TimeSource { TimeSource(now: { self.now }, uptime: { .zero }) }
        }

        private let clock = Clock()
        private let address: PostgresAddress
        private let homes: [PostgresHome]
        /// Those of two relays.
        private let attempts: [any Attempts]

        init() throws {
            let (address, clock) = (try emptyDatabase(), clock)
            self.address = address
            homes = (0..<2).map { _ in
                PostgresHome(PostgresCluster(address, folder: nil, creates: true), time: clock.source)
            }
            attempts = try homes.map { try #require(try $0.accounts(onLostWrite: nil).attempts) }
        }

        private static let limit = RateLimit(perSecond: 1 / 6.0, burst: 10)

        private func rows() throws -> Int64 {
            try PostgresConnection(to: address).query("SELECT count(*) FROM attempt").first?.int(0) ?? 0
        }

        // MARK: Attempts

        @Test("two relays together allow as many attempts as one")
        func sharedLimit() throws {
            for number in 0..<10 { #expect(try attempts[number % 2].take("eve", of: Self.limit) == nil) }
            for relay in attempts { #expect(try relay.take("eve", of: Self.limit) == .seconds(6)) }
            #expect(try attempts[0].take("ada", of: Self.limit) == nil, "another one is not affected")
            clock.advance(.seconds(4))
            #expect(try attempts[1].take("eve", of: Self.limit) == .seconds(2))
            clock.advance(.seconds(2))
            #expect(try attempts[1].take("eve", of: Self.limit) == nil)
            #expect(try attempts[0].take("eve", of: Self.limit) == .seconds(6))
        }

        @Test("a bucket allows what TokenBucket allows", arguments: UInt64(1)...20)
        func sameAsInMemory(seed: UInt64) throws {
            var (state, now) = (seed, Duration.zero)
            func draw(_ most: UInt64) -> UInt64 {
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                return (state >> 33) % most
            }
            let limit = RateLimit(perSecond: 1 / Double(1 + draw(7)), burst: Double(1 + draw(5)))
            var bucket = TokenBucket(limit, at: now)
            for step in 0..<40 {
                if draw(4) == 0 {
                    bucket.giveBack(limit, at: now)
                    try attempts[step % 2].giveBack("key", of: limit)
                } else {
                    let expected = bucket.take(limit, at: now)
                    let wait = try attempts[step % 2].take("key", of: limit)
                    #expect((wait == nil) == (expected == nil), "step \(step)")
                }
                // Never the time at which an attempt is gained, and so late that each relay asks the database.
                let pause = Duration.milliseconds(1_013 + Int64(draw(300)) * 100)
                now += pause
                clock.advance(pause)
            }
        }

        @Test("an attempt that is given back at another relay may be used at once")
        func givenBack() throws {
            for _ in 0..<10 { _ = try attempts[0].take("ada", of: Self.limit) }
            #expect(try attempts[0].take("ada", of: Self.limit) != nil)
            #expect(try attempts[1].take("ada", of: Self.limit) != nil)
            try attempts[1].giveBack("ada", of: Self.limit)
            #expect(try attempts[1].take("ada", of: Self.limit) == nil)
        }

        @Test("attempts at once do not exceed the limit")
        func concurrentAttempts() async throws {
            let attempts = attempts
            let allowed = try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<40 {
                    group.addTask { try attempts[number % 2].take("eve", of: Self.limit) == nil }
                }
                return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            #expect(allowed <= 10 && allowed > 0)
        }

        @Test("a relay whose clock was far ahead does not lock others out for longer than the limit does")
        func clockAhead() throws {
            clock.advance(.seconds(86_400))
            for _ in 0..<10 { _ = try attempts[0].take("ada", of: Self.limit) }
            clock.advance(.seconds(-86_400))
            #expect(try attempts[1].take("ada", of: Self.limit) == .seconds(6))
            clock.advance(.seconds(6))
            #expect(try attempts[1].take("ada", of: Self.limit) == nil)
        }

        @Test("rows that are worth nothing are removed, and all counts if there are too many")
        func bounded() throws {
            _ = try attempts[0].take("ada", of: Self.limit)
            #expect(try attempts[0].isFirstUse(of: "ticket", within: .seconds(60)))
            #expect(try rows() == 2)
            try attempts[1].removeExpired()
            #expect(try rows() == 2)
            clock.advance(.seconds(6))
            try attempts[1].removeExpired()
            #expect(try rows() == 1)
            try PostgresConnection(to: address).query(
                """
                INSERT INTO attempt (key, ends) SELECT decode('00' || md5(n::text), 'hex'), $1
                FROM generate_series(1, 100001) n
                """,
                .int((clock.now + .seconds(60)).milliseconds)
            )
            try attempts[0].removeExpired()
            #expect(try rows() == 1, "the used value stays")
            #expect(try !attempts[1].isFirstUse(of: "ticket", within: .seconds(60)))
        }

        // MARK: Values that are valid once

        @Test("a value is accepted once over all relays, and again when its use is forgotten")
        func firstUse() async throws {
            let attempts = attempts
            let accepted = try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<16 {
                    group.addTask { try attempts[number % 2].isFirstUse(of: "ticket", within: .seconds(60)) }
                }
                return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            #expect(accepted == 1)
            clock.advance(.seconds(59))
            #expect(try !attempts[1].isFirstUse(of: "ticket", within: .seconds(60)))
            #expect(try attempts[1].isFirstUse(of: "another", within: .seconds(60)))
            clock.advance(.seconds(1))
            #expect(try attempts[1].isFirstUse(of: "ticket", within: .seconds(60)))
        }

        // MARK: Alerts

        @Test("a condition is told once over all relays, daily while it goes on, and when no relay has it any more")
        func alerts() throws {
            let relays = try homes.map { try #require($0.alertIncidents) }
            let times = AlertTimes()
            func fires(_ relay: Int) throws -> AlertNews? { try relays[relay].fires("slow", at: clock.now, times) }
            func clears(_ relay: Int) throws -> Bool { try relays[relay].clears("slow", at: clock.now, times) }
            #expect(try !clears(0))
            #expect(try fires(0) == .begins)
            #expect(try fires(1) == nil && fires(0) == nil)
            for _ in 0..<360 {
                clock.advance(.seconds(240))
                #expect(try !clears(0), "the other relay still has it")
                let news = try fires(1)
                if news != nil { #expect(news == .lasts && clock.now.milliseconds == 1_800_086_400_000) }
            }
            #expect(try fires(0) == nil, "the reminder was sent by the other relay")
            clock.advance(.seconds(299))
            #expect(try !clears(0))
            clock.advance(.seconds(1))
            #expect(try clears(1))
            #expect(try !clears(0))
            #expect(try fires(1) == .begins)
            // An incident that all relays have left, such as by a stop, is another one when it comes again.
            clock.advance(.seconds(300))
            #expect(try fires(0) == .begins)
            try relays[1].forget("slow")
            #expect(try fires(0) == .begins)
        }

        @Test("a clock that is set back delays neither reminders nor ends")
        func alertClock() throws {
            let (relay, times) = (try #require(homes[0].alertIncidents), AlertTimes())
            clock.advance(.seconds(365 * 86_400))
            #expect(try relay.fires("slow", at: clock.now, times) == .begins)
            clock.advance(.seconds(-365 * 86_400))
            #expect(try relay.fires("slow", at: clock.now, times) == nil)
            for step in 1...360 {
                clock.advance(.seconds(240))
                #expect(try relay.fires("slow", at: clock.now, times) == (step == 360 ? .lasts : nil))
            }
            clock.advance(.seconds(-365 * 86_400))
            #expect(try !relay.clears("slow", at: clock.now, times))
            clock.advance(.seconds(300))
            #expect(try relay.clears("slow", at: clock.now, times))
        }
    }
#endif
