/* Fast DDS: one topic for each group, reliable, everything kept until it is acknowledged. */
#include "SamplePubSubTypes.h"
#include "bench.h"

#include <fastdds/dds/core/condition/WaitSet.hpp>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/publisher/qos/DataWriterQos.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/subscriber/qos/DataReaderQos.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <fastrtps/utils/IPLocator.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

using namespace eprosima::fastdds::dds;
using eprosima::fastdds::rtps::UDPv4TransportDescriptor;
using eprosima::fastrtps::rtps::IPLocator;
using eprosima::fastrtps::rtps::Locator_t;

namespace {

/* Samples that a writer keeps for those who have not acknowledged them, then it waits: as many as
 * make 32 MB, within limits. */
int32_t samples(const bench_options *options)
{
    return (int32_t)std::clamp<size_t>((32 << 20) / options->payload, 100, 5000);
}

const eprosima::fastrtps::Duration_t kPatience{60, 0};

DomainParticipant *participant;
std::vector<DataWriter *> writers;
std::vector<DataReader *> readers;
WaitSet waits;

template <class T> T *made(T *entity, const char *what)
{
    if (!entity)
        bench_fail(what, "cannot be created");
    return entity;
}

/* UDP alone: shared memory would measure something else. */
void open_participant(const bench_options *options)
{
    DomainParticipantQos quality = PARTICIPANT_QOS_DEFAULT;
    auto transport = std::make_shared<UDPv4TransportDescriptor>();
    transport->interfaceWhiteList.push_back(options->address);
    uint32_t buffer = (uint32_t)bench_number("socket-buffer", 4 << 20);
    transport->sendBufferSize = transport->receiveBufferSize = buffer;
    transport->maxMessageSize = (uint32_t)bench_number("message-size", 65500);
    quality.transport().user_transports.push_back(transport);
    quality.transport().use_builtin_transports = false;
    DomainId_t domain = (DomainId_t)(options->port / BENCH_PORTS % 200);
    auto *factory = DomainParticipantFactory::get_instance();
    participant = made(factory->create_participant(domain, quality), "participant");
    TypeSupport(new SamplePubSubType()).register_type(participant, "Sample");
}

Topic *topic(const bench_options *options, int group)
{
    std::string name = "bench_" + std::to_string(options->port) + "_" + std::to_string(group);
    return made(participant->create_topic(name, "Sample", TOPIC_QOS_DEFAULT), "topic");
}

void open_sender(const bench_options *options)
{
    open_participant(options);
    Publisher *publisher = made(participant->create_publisher(PUBLISHER_QOS_DEFAULT), "publisher");
    DataWriterQos quality = DATAWRITER_QOS_DEFAULT;
    quality.reliability().kind = RELIABLE_RELIABILITY_QOS;
    quality.reliability().max_blocking_time = kPatience;
    quality.history().kind = KEEP_ALL_HISTORY_QOS;
    quality.publish_mode().kind = ASYNCHRONOUS_PUBLISH_MODE;
    quality.resource_limits().max_samples = samples(options);
    quality.resource_limits().max_samples_per_instance = samples(options);
    quality.resource_limits().max_instances = 1;
    quality.resource_limits().allocated_samples = 100;
    quality.reliable_writer_qos().times.heartbeatPeriod = {0, 50000000};
    quality.endpoint().history_memory_policy =
        eprosima::fastrtps::rtps::PREALLOCATED_WITH_REALLOC_MEMORY_MODE;
    quality.data_sharing().off();
    for (int group = 0; group < options->groups; group++)
        writers.push_back(
            made(publisher->create_datawriter(topic(options, group), quality), "writer"));
}

void open_receiver(const bench_options *options)
{
    open_participant(options);
    Subscriber *subscriber =
        made(participant->create_subscriber(SUBSCRIBER_QOS_DEFAULT), "subscriber");
    DataReaderQos quality = DATAREADER_QOS_DEFAULT;
    quality.reliability().kind = RELIABLE_RELIABILITY_QOS;
    quality.history().kind = KEEP_ALL_HISTORY_QOS;
    quality.resource_limits().max_samples = 2 * samples(options);
    quality.resource_limits().max_samples_per_instance = 2 * samples(options);
    quality.resource_limits().max_instances = 1;
    quality.resource_limits().allocated_samples = 100;
    quality.endpoint().history_memory_policy =
        eprosima::fastrtps::rtps::PREALLOCATED_WITH_REALLOC_MEMORY_MODE;
    quality.data_sharing().off();
    if (bench_number("multicast", 0)) {
        Locator_t locator;
        IPLocator::setIPv4(locator, "239.255.90.1");
        locator.port = (uint32_t)options->port;
        quality.endpoint().multicast_locator_list.push_back(locator);
    }
    for (int group = 0; group < options->groups; group++) {
        DataReader *reader =
            made(subscriber->create_datareader(topic(options, group), quality), "reader");
        reader->get_statuscondition().set_enabled_statuses(StatusMask::data_available());
        waits.attach_condition(reader->get_statuscondition());
        readers.push_back(reader);
    }
}

void send_message(int group, const uint8_t *message, size_t length)
{
    static Sample sample;
    sample.bytes().assign(message, message + length);
    if (!writers[(size_t)group]->write(&sample))
        bench_fail("write", "no room within a minute");
}

void take(DataReader *reader)
{
    static Sample sample;
    SampleInfo info;
    while (reader->take_next_sample(&sample, &info) == ReturnCode_t::RETCODE_OK)
        if (info.valid_data)
            bench_deliver(sample.bytes().data(), sample.bytes().size());
}

void receive()
{
    ConditionSeq active;
    if (waits.wait(active, eprosima::fastrtps::Duration_t{0, 10000000}) !=
        ReturnCode_t::RETCODE_OK)
        return;
    for (Condition *condition : active) {
        Entity *entity = static_cast<StatusCondition *>(condition)->get_entity();
        take(static_cast<DataReader *>(entity));
    }
}

} // namespace

int main(int argc, char **argv)
{
    static const bench_system system = {
        .open_sender = open_sender,
        .open_receiver = open_receiver,
        .send = send_message,
        .flush = nullptr,
        .receive = receive,
        .close = nullptr,
    };
    return bench_main(argc, argv, &system);
}
