"""Classifiers of timm, torchvision and transformers, made small and with random weights."""

import torch

from tests.networks import foreign

CLASSES = 5


def transformer(kind, **settings):
    """A classifier of transformers by its configuration's name."""

    def make():
        foreign.declare_missing_operators()
        import transformers

        config = getattr(transformers, f"{kind}Config")(num_labels=CLASSES, **settings)
        tasks = ("SequenceClassification", "ImageClassification", "AudioClassification")
        autos = [getattr(transformers, f"AutoModelFor{task}") for task in tasks]
        auto = next(auto for auto in autos if type(config) in auto._model_mapping)
        return auto.from_config(config)

    return make


def timm_model(name, **options):
    return lambda: foreign.import_timm().create_model(name, num_classes=CLASSES, **options)


def torchvision_model(name, **options):
    def make():
        foreign.declare_missing_operators()
        import torchvision

        return torchvision.models.get_model(name, num_classes=CLASSES, **options)

    return make


def text():
    return foreign.bert_tokens(4)


def ended_text():
    """As models want it that read an end of sentence."""
    tokens = foreign.bert_tokens(4)
    tokens["input_ids"][tokens["input_ids"] == 2] = 5
    tokens["input_ids"][:, 4] = 2
    return tokens


def images(size=32, channels=3):
    return lambda: {"pixel_values": torch.rand(4, channels, size, size)}


def pictures(size=64):
    return lambda: torch.rand(4, 3, size, size)


def sound():
    return {"input_values": torch.randn(4, 1600)}


BERT = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
LLAMA = {**BERT, "num_key_value_heads": 1, "pad_token_id": 0}
VIT = {key: value for key, value in BERT.items() if key != "vocab_size"} | {"image_size": 32, "patch_size": 8}
WAVE = BERT | {
    "conv_dim": (8, 8), "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 8,
    "mask_time_prob": 0.0, "layerdrop": 0.0,
}  # fmt: skip
GPT = {"vocab_size": 50, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "pad_token_id": 0}
BART = {
    "vocab_size": 50, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 32,
}  # fmt: skip

# name: (model, example)
TEXT = {
    "BERT": (transformer("Bert", **BERT), text),
    "DistilBERT": (transformer("DistilBert", vocab_size=50, dim=16, n_layers=2, n_heads=2, hidden_dim=32), text),
    "RoBERTa": (transformer("Roberta", **BERT), text),
    "CamemBERT": (transformer("Camembert", **BERT), text),
    "ALBERT": (transformer("Albert", **BERT, embedding_size=8), text),
    "Electra": (transformer("Electra", **BERT, embedding_size=8), text),
    "DeBERTa": (transformer("Deberta", **BERT), text),
    "DeBERTa v2": (transformer("DebertaV2", **BERT), text),
    "MPNet": (transformer("MPNet", **BERT), text),
    "XLNet": (transformer("XLNet", vocab_size=50, d_model=16, n_layer=2, n_head=2, d_inner=32), text),
    "ModernBERT": (transformer("ModernBert", **BERT, pad_token_id=0), text),
    "ConvBERT": (transformer("ConvBert", **BERT, embedding_size=16), text),
    "RoFormer": (transformer("RoFormer", **BERT, embedding_size=16), text),
    "FNet": (transformer("FNet", **BERT), lambda: {"input_ids": text()["input_ids"]}),
    "MobileBERT": (
        transformer("MobileBert", **BERT, embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16), text,
    ),
    "SqueezeBERT": (
        transformer("SqueezeBert", **BERT, embedding_size=16, q_groups=1, k_groups=1, v_groups=1), text,
    ),
    "GPT-2": (transformer("GPT2", **GPT), text),
    "GPT-Neo": (
        transformer(
            "GPTNeo", vocab_size=50, hidden_size=16, num_layers=2, num_heads=2, pad_token_id=0,
            attention_types=[[["global", "local"], 1]], max_position_embeddings=32,
        ), text,
    ),
    "GPT-NeoX": (transformer("GPTNeoX", **BERT, pad_token_id=0), text),
    "Bloom": (transformer("Bloom", vocab_size=50, hidden_size=16, n_layer=2, n_head=2, pad_token_id=0), text),
    "Llama": (transformer("Llama", **LLAMA), text),
    "Mistral": (transformer("Mistral", **LLAMA), text),
    "Qwen2": (transformer("Qwen2", **LLAMA), text),
    "Gemma": (transformer("Gemma", **LLAMA, head_dim=8), text),
    "Phi": (transformer("Phi", **LLAMA), text),
    "Mixtral": (transformer("Mixtral", **LLAMA, num_local_experts=2), text),
    "OPT": (
        transformer(
            "OPT", vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=32,
            word_embed_proj_dim=16, max_position_embeddings=32, pad_token_id=0,
        ), text,
    ),
    "T5": (
        transformer(
            "T5", vocab_size=50, d_model=16, num_layers=1, num_heads=2, d_ff=32, d_kv=8, eos_token_id=2,
            decoder_start_token_id=0,
        ), ended_text,
    ),
    "BART": (transformer("Bart", **BART), ended_text),
}  # fmt: skip
SIGHT = {
    "ViT": (transformer("ViT", **VIT), images()),
    "DeiT": (transformer("DeiT", **VIT, architectures=["DeiTForImageClassification"]), images()),
    "BEiT": (transformer("Beit", **VIT), images()),
    "DeiT with a teacher": (
        transformer("DeiT", **VIT, architectures=["DeiTForImageClassificationWithTeacher"]),
        images(),
    ),
    "DINOv2": (transformer("Dinov2", **VIT), images()),
    "Swin": (
        transformer("Swin", image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4),
        images(),
    ),
    "Swin v2": (
        transformer("Swinv2", image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4),
        images(),
    ),
    "ConvNeXt": (transformer("ConvNext", hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1]), images()),
    "ConvNeXt v2": (transformer("ConvNextV2", hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1]), images()),
    "ResNet": (transformer("ResNet", embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1]), images()),
    "RegNet": (transformer("RegNet", embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1], groups_width=4), images()),
    "MobileNet v2": (transformer("MobileNetV2", depth_multiplier=0.25), images()),
    "PoolFormer": (transformer("PoolFormer", hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1]), images(64)),
    "SegFormer": (
        transformer("Segformer", hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 2, 2]),
        images(64),
    ),
}
SOUND = {
    "Wav2Vec2": (transformer("Wav2Vec2", **WAVE), sound),
    "HuBERT": (transformer("Hubert", **WAVE), sound),
    "WavLM": (transformer("WavLM", **WAVE), sound),
    "Whisper": (
        transformer("Whisper", **BART | {"num_mel_bins": 8, "max_source_positions": 16, "pad_token_id": 0}),
        lambda: {"input_features": torch.randn(4, 8, 32)},
    ),
    "AST": (
        transformer("AST", **BERT | {"max_length": 32, "num_mel_bins": 32, "patch_size": 8}),
        lambda: {"input_values": torch.randn(4, 32, 32)},
    ),
}
ANY_SIZE = """
resnet18 resnet26d seresnet50 skresnet18 res2net50_14w_8s resnest14d ecaresnet50t regnetx_002 regnety_002
resnext50_32x4d densenet121 dla34 hrnet_w18_small ese_vovnet19b_slim cspresnet50 repvgg_a0 mobileone_s0
mobilenetv2_050 mobilenetv3_small_050 mobilenetv4_conv_small efficientnet_lite0 mnasnet_050 tinynet_e
lcnet_035 fbnetc_100 ghostnet_050 rexnet_100 nf_regnet_b0 convnext_atto convnextv2_atto edgenext_xx_small
mobilevit_xxs poolformer_s12 fastvit_t8 vgg11_bn xception41 hardcorenas_a
"""
TIMM = {name: (timm_model(name), pictures()) for name in ANY_SIZE.split()} | {
    name: (timm_model(name, img_size=size), pictures(size))
    for name, size in {
        "vit_tiny_patch16_224": 64, "deit_tiny_patch16_224": 64, "swin_tiny_patch4_window7_224": 224,
        "mixer_s32_224": 64, "resmlp_12_224": 64, "gmlp_ti16_224": 64, "cait_xxs24_224": 64, "xcit_nano_12_p16_224": 64,
        "pit_ti_224": 64, "beit_base_patch16_224": 32, "eva02_tiny_patch14_224": 56, "coatnet_nano_rw_224": 64,
        "visformer_tiny": 64, "tnt_s_legacy_patch16_224": 64, "twins_svt_small": 64,
        "deit_tiny_distilled_patch16_224": 64,
    }.items()
}  # fmt: skip
TIMM["inception_v3"] = (timm_model("inception_v3"), pictures(96))
TIMM |= {name: (timm_model(name), pictures(224)) for name in ("levit_128s", "efficientformer_l1")}
TORCHVISION = {
    name: (torchvision_model(name, **options), pictures(size))
    for name, size, options in (
        ("alexnet", 64, {}), ("squeezenet1_1", 64, {}), ("shufflenet_v2_x0_5", 64, {}), ("vgg11", 32, {}),
        ("googlenet", 64, {"aux_logits": True, "init_weights": False}), ("mobilenet_v3_small", 64, {}),
        ("efficientnet_b0", 64, {}), ("swin_t", 64, {}),
    )
}  # fmt: skip
DEFAULT = {
    **{name: TEXT[name] for name in ("BERT", "GPT-2", "Llama")},
    **{name: SIGHT[name] for name in ("ViT", "ConvNeXt")},
    "Wav2Vec2": SOUND["Wav2Vec2"],
    "resnet18": TIMM["resnet18"],
    "SqueezeNet": TORCHVISION["squeezenet1_1"],
    "GoogLeNet": TORCHVISION["googlenet"],
}
WIDE = {
    **TEXT, **SIGHT, **SOUND, **{f"timm {name}": model for name, model in TIMM.items()},
    **{f"torchvision {name}": model for name, model in TORCHVISION.items()},
}  # fmt: skip
