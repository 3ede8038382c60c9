import Records
import RelayCore
import Testing

@Suite struct RateHitsTests {
    private func address(_ number: Int) -> RateSubject { .address("\(number)") }

    @Test func hitsAreSortedByCount() {
        var hits = RateHits()
        hits.note(.requests, .user(UserID("_a")), at: .seconds(1))
        hits.note(.requests, .user(UserID("_b")), at: .seconds(2))
        hits.note(.requests, .user(UserID("_b")), at: .seconds(3))
        hits.note(.failedSignIns, .user(UserID("_b")), at: .seconds(4))
        #expect(
            hits.hits(at: .seconds(5)) == [
                RateHit(rate: .requests, subject: .user(UserID("_b")), count: 2, last: .seconds(3)),
                RateHit(rate: .failedSignIns, subject: .user(UserID("_b")), count: 1, last: .seconds(4)),
                RateHit(rate: .requests, subject: .user(UserID("_a")), count: 1, last: .seconds(1)),
            ]
        )
    }

    @Test func hitsAreForgottenAfterADay() {
        var hits = RateHits()
        for _ in 0..<3 { hits.note(.requests, address(1), at: .zero) }
        #expect(hits.hits(at: RateHits.lifetime).map(\.count) == [3])
        #expect(hits.hits(at: RateHits.lifetime + .seconds(1)).isEmpty)
        hits.note(.requests, address(1), at: RateHits.lifetime + .seconds(1))
        #expect(hits.hits(at: RateHits.lifetime + .seconds(1)).map(\.count) == [1])
    }

    @Test func aFloodOfAddressesIsBoundedAndHidesNoFrequentSubject() {
        var hits = RateHits(capacity: 100)
        for _ in 0..<5 { hits.note(.requests, .user(UserID("_often")), at: .zero) }
        for number in 0..<10_000 {
            hits.note(.failedCredentials, address(number), at: .seconds(1))
            if number % 99 == 0 { #expect(hits.hits(at: .seconds(1)).count <= 100) }
        }
        #expect(hits.hits(at: .seconds(1)).first?.subject == .user(UserID("_often")))
    }
}
