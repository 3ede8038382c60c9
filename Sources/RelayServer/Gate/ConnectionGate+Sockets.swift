import HTTPTypes
import NIOCore
import RelayAPI

/// The upgrade of a connection from HTTP to WebSocket, or its rejection.
extension ConnectionGate {
    func open(_ purpose: SocketPurpose, for plan: RequestPlan, _ context: ChannelHandlerContext) {
        switch Handshake.judge(plan, for: purpose) {
        case .refused(let refusal):
            refuseSocket(refusal, plan, context)
        case .accepted where !isWelcome(plan.request, purpose):
            refuseSocket(Handshake.originRefused, plan, context)
        case .accepted(let acceptance):
            phase = .upgraded
            context.writeAndFlush(wrapOutboundOut(ResponseBytes.switching(acceptance)), promise: nil)
            giveUp(to: purpose, for: plan.request, context)
        }
    }

    /// Checks a browser's origin; other clients send none.
    private func isWelcome(_ request: APIRequest, _ purpose: SocketPurpose) -> Bool {
        guard let origin = request.headers[.origin] else { return true }
        switch purpose {
        case .notices: return loop.door.notices?.admission.allowsUpgrade(request, origin: origin) ?? false
        case .echo: return Handshake.isOwn(origin: origin, host: request.headers[.hostField] ?? "")
        }
    }

    private func refuseSocket(_ refusal: SocketRefusal, _ plan: RequestPlan, _ context: ChannelHandlerContext) {
        loop.door.onRefusal(refusal.noted)
        let buffer = ResponseBytes.write(
            refusal.answer,
            persistence: refusal.noted.status == 426 ? .closeUpgradeRequired : .close,
            date: loop.dateText,
            omitsBody: plan.request.method == .head,
            allocator: context.channel.allocator
        )
        finish(with: buffer, on: context)
    }

    /// Adds the socket after the gate, then removes decoder and gate; bytes received early are passed on to the socket.
    private func giveUp(to purpose: SocketPurpose, for request: APIRequest, _ context: ChannelHandlerContext) {
        let limits = loop.door.limits
        let socket = SocketChannel(
            loop: loop,
            messageLimit: purpose == .echo ? limits.echoMessage : limits.socketMessage,
            isSecure: isSecure
        )
        loop.remove(self)
        let pipeline = context.pipeline.syncOperations
        do {
            try pipeline.addHandler(socket, position: .after(self))
            if purpose == .notices {
                // A slow reader's notices wait in its queue, where they can be merged, not in the channel.
                try context.channel.syncOptions?.setOption(
                    .writeBufferWaterMark,
                    value: .init(low: limits.socketBuffer / 2, high: limits.socketBuffer)
                )
            }
        } catch {
            return close(context)
        }
        switch (purpose, loop.lane) {
        case (.notices, let lane?): listen(request, on: socket, lane, context.channel)
        case (.notices, nil):
            socket.close(code: 1013, reason: "notices are not served here")
            endServing()
        case (.echo, _):
            socket.role = EchoRole(socket: socket, rate: loop.door.socketFrames, uptime: loop.door.uptime)
            endServing()
        }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let boundContext = NIOLoopBound(context, eventLoop: context.eventLoop)
        pipeline.removeHandler(decoderHandler).whenComplete { _ in
            bound.value.holdsRead = false
            boundContext.value.fireChannelReadComplete()
            boundContext.value.pipeline.syncOperations.removeHandler(bound.value, promise: nil)
            boundContext.value.channel.read()
        }
    }
    /// Creates the notice connection; a connection without a serving task gets one only if admission must wait.
    private func listen(
        _ request: APIRequest,
        on socket: SocketChannel,
        _ lane: LoopLane,
        _ channel: any Channel
    ) {
        guard !isServed else { return hand(.socket(NoticeRole.make(for: request, on: socket, lane: lane))) }
        NoticeRole.make(for: request, on: socket, lane: lane) { connection in
            self.ready = .socket(connection)
            self.loop.begin(serving: self, on: channel)
        }
    }
}
